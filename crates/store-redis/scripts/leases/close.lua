-- Ends the copy of a lease: jobs that hang on it here can be reaped at once, without any it is forgotten. After this
-- no claim here finds it alive, so the count that is answered can only fall.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2 lease
-- Answers how many jobs hang on it here.

local running = redis.call('SCARD', lease_key('running:', ARGV[2]))
local expiry = redis.call('ZSCORE', LEASES, ARGV[2])
if expiry and tonumber(expiry) > now then
  redis.call('ZREM', LEASES, ARGV[2])
  if running > 0 then
    redis.call('ZADD', LEASES, now, ARGV[2])
  end
end
return running
