-- Cancels jobs of one queue that wait. One that runs stays as it is.
-- KEYS: those of the queue. ARGV, answer: see shared/amend.
return amend(function(id, record)
  if byte(record) >= STATE.running then
    return false
  end
  return records.expand(moves.change(id, record, BYTES.requested .. sub(record, RECORD.attempt, RECORD.backoff_end)))
end)
