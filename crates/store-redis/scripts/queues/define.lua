-- Sets the definition of a queue. Whoever wrote by the one before is told so by its version.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2 definition as JSON
-- Answers the version.

local version = redis.call('HINCRBY', META, 'version', 1)
redis.call('HSET', META, 'config', ARGV[2])
return version
