-- Records a lease for everyone to see. One that is there stays as it is, so that an open can be repeated.
--
-- KEYS 1 leases, 2 lease-expiry, 3 lease-order
-- ARGV 1 clock, 2 lease, 3 how long it lives in micros, 4 label and queues
-- Answers what is recorded now: label and queues, for how many micros it still lives, and 1 if there was none before.

local record = redis.call('HGET', KEYS[1], ARGV[2])
if record then
  local expiry = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[2]) or 0)
  local left = expiry >= clock.NEVER_MICROS and clock.NEVER_MICROS or math.max(expiry - clock.now, 0)
  return {string.sub(record, LEASE.rest), string.format('%.0f', left), 0}
end
lease_records.add(ARGV[2], ARGV[4])
lease_records.expire(ARGV[2], clock.expiry_after(ARGV[3]))
return {ARGV[4], ARGV[3], 1}
