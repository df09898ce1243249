-- Removes jobs of one queue for good, running ones excepted.
-- KEYS: those of the queue. ARGV, answer: see shared/amend.
return amend(function(id, record)
  if byte(record, 1) == S_RUNNING then
    return false
  end
  leave(id, record)
  forget(id, record)
  return nil
end)
