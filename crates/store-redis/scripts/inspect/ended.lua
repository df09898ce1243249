-- Jobs of one queue that ended in a state, in the order in which they ended, after a place. Changes nothing.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2 state, 3 instant of the place, 4 its seq ('' before all of that instant), 5 most to answer
-- Answers for each its instant, its seq and its id, one after the other: 8, 8 and 16 bytes.

-- Members that one command reads.
local STEP = 500

local ENDED = {
  [STATE.completed] = KEY.completed,
  [STATE.dead] = KEY.dead,
  [STATE.cancelled] = KEY.cancelled,
}

local ended, instant, seq = ENDED[byte(ARGV[2])], tonumber(ARGV[3]), tonumber(ARGV[4])
local most, read_so_far, found = tonumber(ARGV[5]), 0, {}
while ended and #found < most do
  local step = redis.call('ZRANGEBYSCORE', ended, ARGV[3], '+inf', 'WITHSCORES', 'LIMIT', read_so_far, STEP)
  for i = 1, #step, 2 do
    local at = tonumber(step[i + 1])
    -- Those of the place's own instant that come before it, which are as many as one script ended, are passed over.
    if #found < most and not (seq and at == instant and read('>I8', step[i]) <= seq) then
      found[#found + 1] = pack('>I8', at) .. step[i]
    end
  end
  read_so_far = read_so_far + STEP
  if #step < 2 * STEP then
    break
  end
end
return table.concat(found)
