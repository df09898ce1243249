-- Records a lease for everyone to see. One that is there stays as it is, so that an open can be repeated.
--
-- KEYS 1 leases, 2 lease-expiry, 3 lease-order
-- ARGV 1 clock, 2 lease, 3 how long it lives in micros, 4 label and queues
-- Answers what is recorded now: label and queues, for how many micros it still lives, and 1 if there was none before.

local record = redis.call('HGET', KEYS[1], ARGV[2])
if record then
  local expiry = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[2]) or 0)
  local left = expiry >= NEVER_MICROS and NEVER_MICROS or math.max(expiry - now, 0)
  return {string.sub(record, 9), string.format('%.0f', left), 0}
end
record_lease(ARGV[2], ARGV[4])
expire_lease(ARGV[2], expiry_after(ARGV[3]))
return {ARGV[4], ARGV[3], 1}
