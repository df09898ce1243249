-- Tells whether a call was accepted before. Changes nothing.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 the call (shared/calls).
-- Answer: the number of its first transfer if it was, else nil.
return ARGV[2] ~= '' and redis.call('GET', keys.call(ARGV[2]))
