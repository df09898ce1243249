-- Takes the first ready jobs.
-- KEYS: ready, jobs, running
-- ARGV: how many at most, what a claim adds to a record
-- Answers id and record of each.
local members = redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1)
local count = #members
if count == 0 then return members end
local ids, pairs, sub, claim = {}, {}, string.sub, ARGV[2]
for i = 1, count do ids[i] = sub(members[i], 17) end
local records = redis.call('HMGET', KEYS[2], unpack(ids))
for i = 1, count do
  pairs[2 * i - 1] = ids[i]
  pairs[2 * i] = '3' .. sub(records[i], 2) .. claim
end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, count - 1)
redis.call('HSET', KEYS[2], unpack(pairs))
redis.call('SADD', KEYS[3], unpack(ids))
return pairs
