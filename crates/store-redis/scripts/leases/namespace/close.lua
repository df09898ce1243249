-- Ends the record of a lease after its copies have ended. Without jobs it is forgotten, otherwise it has run out now.
-- One that has run out already stays as it is.
--
-- KEYS 1 leases, 2 lease-expiry, 3 lease-order
-- ARGV 1 clock, 2 lease, 3 how many jobs hang on it
-- Answers nothing.

local expiry = redis.call('ZSCORE', KEYS[2], ARGV[2])
if not expiry or tonumber(expiry) <= clock.now then
  return
end
if ARGV[3] == '0' then
  lease_records.forget(ARGV[2])
else
  lease_records.expire(ARGV[2], clock.now)
end
