-- As records/follow, for attempts that a reaper has put back meanwhile, each only if nothing has happened to its job since.
-- KEYS: those of the queue.
-- ARGV: 1 clock; the others as shared/follow says.
-- Answer: as that of records/follow.
return follow_or_undo()
