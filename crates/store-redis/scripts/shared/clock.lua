-- The time, read once: `now` in micros, as a text (a command is slow to make one of a number) and as stored, `real` by
-- the server's own clock.
-- ARGV[1] is the clock of tests; empty, as always outside of them, it means the server's.
-- Micros of 2^53 and more are "never", so that every instant is exact in Lua.
local NEVER_MICROS = 9007199254740992
local NEVER = '\127' .. string.rep('\255', 7)
local real, now
do
  local time = redis.call('TIME')
  real = time[1] * 1000000 + time[2]
  now = ARGV[1] == '' and real or tonumber(ARGV[1])
end

local function instant(micros)
  if micros >= NEVER_MICROS then
    return NEVER
  end
  return struct.pack('>I8', micros)
end

local now8, now_text = instant(now), string.format('%.0f', now)
