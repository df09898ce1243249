-- Completes running jobs and keeps nothing of them.
-- KEYS: running, jobs
-- ARGV: the moment, then ids
-- Answers how many were running.
redis.call('HDEL', KEYS[2], unpack(ARGV, 2))
return redis.call('SREM', KEYS[1], unpack(ARGV, 2))
