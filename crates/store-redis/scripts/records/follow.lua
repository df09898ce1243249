-- Writes what attempts of one queue bring, each only if its fence holds: their ends, jobs and records.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 3 what gives the right to write (shared/ends); the others as shared/follow says.
-- Answer: {'stale'}: judged by another definition; {'whole'}: payloads have to be given, for a job is there already, or what
--   was written before has gone; {'ok', answers, details, number of the first transfer ('' if there is none), first place in the
--   order of acceptance, instant of acceptance, how many transfers waited before}. Answers are two bytes for each attempt: the
--   state that its job has now, 'f' fenced, 'l' its output is too large, 'x' refused by the program, 't', 'u' and 'g' refused for
--   a job whose id is taken, taken by a strange one, or that is too large, 'c' for a record; and '1' if it is followed, else '0'.
--   Details are, for each 't', 'u', 'g' and 'c', which job or record it is, and the version of the record that is there.
return follow_or_undo()
