-- Lets the record of a lease live on. The copies beside the jobs decide whether it does; one without queues has none,
-- so its record does. A record that went with a server is made again.
--
-- KEYS 1 leases, 2 lease-expiry, 3 lease-order
-- ARGV 1 clock, 2 lease, 3 how long it lives in micros, 4 label and queues, 5 whether its copies live (0: it has none)
-- Answers 1 if it lives on, 0 if it is lost.

if ARGV[5] == '0' then
  local expiry = redis.call('ZSCORE', KEYS[2], ARGV[2])
  if not expiry or tonumber(expiry) <= clock.now then
    return 0
  end
elseif redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  lease_records.add(ARGV[2], ARGV[4])
end
lease_records.expire(ARGV[2], clock.expiry_after(ARGV[3]))
return 1
