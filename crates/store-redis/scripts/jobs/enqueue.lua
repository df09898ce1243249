-- Accepts jobs of one queue: all of them or none. From a transfer, those whose id is free.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 version of the definition that the jobs were judged by ('' for a transfer),
--   3 queue that the transfer came from ('' if it is none), 4 the transfer's number, 5 seq and instant of its acceptance,
--   with a blank between them, 6 '1' if the caller has entered the queue in this call, 7 how far each of the transfer's
--   jobs is from that seq (4 bytes each; '' for one after the other), 8 the call (shared/calls; '' for a transfer),
--   9 how many jobs may wait here ('' for any number, and for a transfer), 10- jobs (shared/packed).
-- Answer: {'stale'}: judged by another definition; {'unentered'}: the queue is new, or was removed, and has to be entered
--   first; {'known'}: the transfer was applied before; {'repeated'}: the call was; {'rules', rule}: the queue of a transfer
--   uses a rule that this program does not know (for a call, the definition says so);
--   {'whole'}: payloads have to be given, for a job is there already, or what was written before has gone;
--   {'taken', i}, {'strange', i}, {'large', i}: the i-th job is refused, and so are all;
--   {'full', waiting}: so many jobs wait, and there is no room for those that are new;
--   {'ok', answers, 1 if the queue was not there}: a byte for each job: 'r' now ready, 's' now scheduled, 'h' held, 'd' not
--   stored since another job holds its unique key, 'p' the same and that job was replaced, else it was there: its state, and
--   't' from a transfer if it is another job; after them, for each 'd' and 'p', the id of the holder and its state, '-' if it
--   is gone.
packed.begin(10)
if packed.are_given then
  return enqueue()
end
return run_or_undo(enqueue, function(answer) return answer[1] == 'ok' end, packed.discard)
