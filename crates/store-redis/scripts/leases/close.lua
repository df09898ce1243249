-- Ends the copy of a lease: jobs that hang on it here can be reaped at once, without any it is forgotten. After this
-- no claim here finds it alive, so the count that is answered can only fall.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2 lease
-- Answers how many jobs hang on it here.

local running = redis.call('SCARD', keys.of_lease('running:', ARGV[2]))
local expiry = redis.call('ZSCORE', KEY.leases, ARGV[2])
if expiry and tonumber(expiry) > clock.now then
  redis.call('ZREM', KEY.leases, ARGV[2])
  if running > 0 then
    redis.call('ZADD', KEY.leases, clock.now, ARGV[2])
  end
end
return running
