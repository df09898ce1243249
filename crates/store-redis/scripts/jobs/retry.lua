-- Sends jobs of one queue to `ready`, due now: scheduled and blocked ones as they are, dead and cancelled ones anew.
-- KEYS: those of the queue. ARGV, answer: see shared/amend.
return amend(function(id, record)
  local state = byte(record)
  if state <= STATE.scheduled then
    return records.expand(moves.change(id, record, '20' .. sub(record, RECORD.reason, RECORD.backoff_end), clock.now8))
  elseif state == STATE.dead or state == STATE.cancelled then
    local holder = byte(record, RECORD.flags) % FLAGS.gate >= FLAGS.key and uniques().take_again(id, record)
    if holder then
      return false, holder
    end
    return records.expand(moves.change(id, record, '20-' .. BYTES.no_counters, clock.now8))
  end
  return false
end)
