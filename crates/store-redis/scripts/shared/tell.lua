-- Told of so many jobs that go from a state to another, for the reason that records have (its byte). From nowhere comes a
-- job that is accepted, nowhere goes one that is removed. Whatever accepts or moves jobs tells of them here.
-- Needs: batch.
local function tell(from, to, reason, jobs)
  if from then batch.count(from, -jobs) end
  if to then batch.count(to, jobs) end
  -- Tallies: count (from, to, reason) by minute here.
end
