-- Records the end of attempts in one queue that a reaper has put back meanwhile, each only if nothing has happened to its
-- job since.
-- KEYS: those of the queue.
-- ARGV: 1 clock; the others are outcomes (shared/outcomes).
-- Answer: as that of jobs/settle.
if outcomes.is_stale then
  return { 'stale' }
end
local found, answers = records.load(outcomes.ids()), {}
outcomes.walk(ends.begin_run, function(i, id, delay, ending, output)
  answers[i] = found[i] and ends.settle(id, found[i], delay, ending, output) or 'f'
end)
batch.write_anyway()
blocks.write_released()
return { 'ok', table.concat(answers) }
