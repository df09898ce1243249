-- When a lease runs out. Needs: clock.

-- The instant this many micros from now, as a score: exact, and "never" is the same for all.
local function expiry_after(micros)
  return math.min(now + micros, NEVER_MICROS)
end
