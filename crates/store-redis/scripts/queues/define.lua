-- Sets the definition of a queue. Whoever wrote by the one before is told so by its version.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2 definition as JSON
-- Answers the version. To define a queue as it is changes nothing.

local known = redis.call('HMGET', KEY.meta, 'version', 'config')
if known[1] and known[2] == ARGV[2] then
  return tonumber(known[1])
end
local version = redis.call('HINCRBY', KEY.meta, 'version', 1)
redis.call('HSET', KEY.meta, 'config', ARGV[2])
return version
