-- Completes running jobs and keeps their records.
-- KEYS: running, jobs, completed
-- ARGV: the moment, then ids
-- Answers how many were running.
local count, now = #ARGV - 1, ARGV[1]
local pairs, ended, sub = {}, {}, string.sub
local records = redis.call('HMGET', KEYS[2], unpack(ARGV, 2))
for i = 1, count do
  local id, record = ARGV[i + 1], records[i]
  pairs[2 * i - 1] = id
  pairs[2 * i] = '4' .. sub(record, 2)
  ended[2 * i - 1] = now
  ended[2 * i] = sub(record, 40, 47) .. id
end
redis.call('HSET', KEYS[2], unpack(pairs))
redis.call('ZADD', KEYS[3], unpack(ended))
return redis.call('SREM', KEYS[1], unpack(ARGV, 2))
