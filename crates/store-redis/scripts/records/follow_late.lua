-- As records/follow, for attempts that a reaper has put back meanwhile.
return follow_or_undo()
