-- The time, read once: `now` in micros, as a text (a command is slow to make one of a number) and as stored, `real` by
-- the server's own clock.
-- ARGV[1] is the clock of tests; empty, as always outside of them, it means the server's.
local clock = (function()
  -- Micros of 2^53 and more are "never", so that every instant is exact in Lua.
  local NEVER_MICROS = 9007199254740992
  local NEVER = '\127\255\255\255\255\255\255\255'
  local time = redis.call('TIME')
  local real = time[1] * 1000000 + time[2]
  local now = ARGV[1] == '' and real or tonumber(ARGV[1])

  -- An instant as it is stored.
  local function instant(micros)
    if micros >= NEVER_MICROS then
      return NEVER
    end
    return struct.pack('>I8', micros)
  end

  -- The instant this many micros from now, as a score: exact, and "never" is the same for all.
  local function expiry_after(micros)
    return math.min(now + micros, NEVER_MICROS)
  end

  return {
    now = now,
    now8 = instant(now),
    now_text = string.format('%.0f', now),
    real = real,
    NEVER_MICROS = NEVER_MICROS,
    instant = instant,
    expiry_after = expiry_after,
  }
end)()
