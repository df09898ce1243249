-- Gives a duty back, if its holder says so.
--
-- KEYS 1 duties
-- ARGV 1 duty, 2 holder
-- Answers how many were given back.

local holder = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^%S+')
if holder == ARGV[2] then
  return redis.call('HDEL', KEYS[1], ARGV[1])
end
return 0
