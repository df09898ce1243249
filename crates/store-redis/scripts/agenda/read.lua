-- Reads which queues a round of a duty has to visit: those that are noted, and those whose next visit is due.
--
-- KEYS 1 notes of the duty, 2 its agenda, 3 queues
-- ARGV 1 clock, 2 where to go on in the notes ('': nowhere), 3 how many due ones to skip ('': all), 4 how many of each
-- Answers now, how many queues there are, 1 if there is an agenda, where to go on in the notes ('': there are no more), how
-- many are due, then these, then those that are noted.

local next, noted, due = '', {}, {}
if ARGV[2] ~= '' then
  -- A scan passes none that stays, also while others are noted anew.
  local page = redis.call('ZSCAN', KEYS[1], ARGV[2], 'COUNT', ARGV[4])
  next, noted = page[1] == '0' and '' or page[1], page[2]
end
if ARGV[3] ~= '' then
  due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', clock.now, 'LIMIT', ARGV[3], ARGV[4])
end
local found = { clock.now_text, redis.call('ZCARD', KEYS[3]), redis.call('EXISTS', KEYS[2]), next, #due }
for _, queue in ipairs(due) do
  found[#found + 1] = queue
end
for i = 1, #noted, 2 do
  found[#found + 1] = noted[i]
end
return found
