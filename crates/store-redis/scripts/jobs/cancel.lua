-- Cancels jobs of one queue: one that waits at once, one that runs by a request to its worker.
-- KEYS: those of the queue. ARGV, answer: see shared/amend.
return amend(function(id, record)
  local state = byte(record)
  if state > STATE.running then
    return false
  end
  if state < STATE.running then
    return records.expand(moves.change(id, record, BYTES.requested .. sub(record, RECORD.attempt, RECORD.backoff_end)))
  end
  -- It stays in its state, and is asked to leave it.
  local flags = byte(record, RECORD.flags)
  record = char(state, flags % 2 == 1 and flags or flags + 1) .. sub(record, RECORD.reason)
  batch.add(batch.of('SADD', keys.of_lease('stopping:', records.lease_of(record))), id)
  batch.add(batch.of('HSET', KEY.jobs), id, records.stored(record))
  return record
end)
