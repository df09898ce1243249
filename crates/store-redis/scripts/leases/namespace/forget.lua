-- Forgets records of leases that no job hangs on, if they have still run out.
--
-- KEYS 1 leases, 2 lease-expiry, 3 lease-order
-- ARGV 1 clock, 2... leases
-- Answers how many are gone now.

local gone = 0
for i = 2, #ARGV do
  local expiry = redis.call('ZSCORE', KEYS[2], ARGV[i])
  if expiry and tonumber(expiry) <= clock.now then
    lease_records.forget(ARGV[i])
    gone = gone + 1
  end
end
return gone
