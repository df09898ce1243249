-- Takes a duty, or keeps it.
--
-- KEYS 1 duties
-- ARGV 1 clock, 2 duty, 3 holder, 4 for how many micros
-- Answers for how many micros another holder has it; 0 if it is the caller's now.

local holder, till = string.match(redis.call('HGET', KEYS[1], ARGV[2]) or '', '^(%S+) (%d+)$')
local ttl = tonumber(ARGV[4])
if holder and holder ~= ARGV[3] then
  local left = tonumber(till) - clock.now
  if left > 0 and left <= ttl then
    return left
  end
end
redis.call('HSET', KEYS[1], ARGV[2], string.format('%s %.0f', ARGV[3], clock.expiry_after(ttl)))
return 0
