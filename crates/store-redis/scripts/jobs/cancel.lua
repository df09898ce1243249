-- Cancels jobs of one queue: one that waits at once, one that runs by a request to its worker.
-- KEYS: those of the queue. ARGV, answer: see shared/amend.
return amend(function(id, record)
  local state = byte(record, 1)
  if state > S_RUNNING then
    return false
  end
  if state == S_RUNNING then
    local v = v_end(record)
    add(batch('SADD', lease_key('stopping:', sub(record, v + 9, v + 24))), id)
    local flags = byte(record, 2)
    return '3' .. string.char(flags % 2 == 1 and flags or flags + 1) .. sub(record, 3)
  end
  leave(id, record)
  record = REQUESTED .. sub(record, 4, 65) .. now8 .. sub(record, 74)
  enter(id, record)
  return record
end)
