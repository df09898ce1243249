-- Writes down when queues are to be visited next, after a round of a duty. A note that was good when the round began stays.
-- A queue that was removed meanwhile is not entered again.
--
-- KEYS 1 queues, 2 notes of the duty, 3 its agenda, 4 agenda for pruning, 5 agenda for reaping
-- ARGV 1 clock, 2 when the round began, then for each queue its name, the instant of the next visit ('': none), and what
--   else was seen: '', 'p' if pruning has to look at it, 'r' if reaping has to, or both
-- Answers nothing.

local began = tonumber(ARGV[2])
local known = {}
for i = 3, #ARGV, 3 do
  known[#known + 1] = ARGV[i]
end
local names, notes = redis.call('ZMSCORE', KEYS[1], unpack(known)), redis.call('ZMSCORE', KEYS[2], unpack(known))
local passed, gone, later, seen = { '' }, { '' }, {}, { [4] = {}, [5] = {} }

local function add(list, score, queue)
  list[#list + 1], list[#list + 2] = score, queue
end

for i, queue in ipairs(known) do
  local at, marks = ARGV[3 * i + 1], ARGV[3 * i + 2]
  if notes[i] and tonumber(notes[i]) <= began then
    passed[#passed + 1] = queue
  end
  if at == '' or not names[i] then
    gone[#gone + 1] = queue
  else
    add(later, at, queue)
  end
  if names[i] and string.find(marks, 'p', 1, true) then add(seen[4], clock.now_text, queue) end
  if names[i] and string.find(marks, 'r', 1, true) then add(seen[5], clock.now_text, queue) end
end
-- Removals first: a server whose memory is full takes what follows one.
redis.call('ZREM', KEYS[2], unpack(passed))
redis.call('ZREM', KEYS[3], unpack(gone))
if #later > 0 then redis.call('ZADD', KEYS[3], unpack(later)) end
for place, queues in pairs(seen) do
  if #queues > 0 then redis.call('ZADD', KEYS[place], 'NX', unpack(queues)) end
end
