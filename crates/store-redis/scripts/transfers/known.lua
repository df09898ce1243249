-- Tells whether a call was accepted before. Changes nothing.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 the call (shared/calls).
-- Answer: 1 if it was, else 0.
return calls.is_repeated(ARGV[2]) and 1 or 0
