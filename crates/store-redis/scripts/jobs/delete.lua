-- Removes jobs of one queue for good, running ones excepted.
-- KEYS: those of the queue. ARGV, answer: see shared/amend.
return amend(function(id, record)
  if byte(record) == STATE.running then
    return false
  end
  moves.remove(id, record)
  return nil
end)
