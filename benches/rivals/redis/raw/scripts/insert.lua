-- Keeps records and makes their jobs ready.
-- KEYS: jobs, ready
-- ARGV: how many, then id and record of each, then score and member of each
local words = 2 * ARGV[1]
redis.call('HSET', KEYS[1], unpack(ARGV, 2, words + 1))
redis.call('ZADD', KEYS[2], unpack(ARGV, words + 2, 2 * words + 1))
