-- Sends jobs of one queue to `ready`, due now: scheduled ones as they are, dead and cancelled ones anew.
-- KEYS: those of the queue. ARGV, answer: see shared/amend.
local COUNTERS = string.rep('\0', 20)

return amend(function(id, record)
  local state = byte(record, 1)
  if state ~= S_SCHEDULED and state ~= S_DEAD and state ~= S_CANCELLED then
    return false
  end
  leave(id, record)
  if state == S_SCHEDULED then
    record = '20' .. sub(record, 3, 31) .. now8 .. sub(record, 40)
  else
    add(batch('HDEL', OUTPUTS), id)
    add(batch('HDEL', PROGRESS), id)
    record = '20-' .. COUNTERS .. sub(record, 24, 31) .. now8 .. sub(record, 40, 49) .. ZERO8
      .. sub(record, 58, 65) .. ZERO8 .. sub(record, 74)
  end
  enter(id, record)
  return record
end)
