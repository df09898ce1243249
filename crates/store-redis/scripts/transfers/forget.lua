-- Forgets a call that was accepted and has stored nothing (shared/calls).
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 the call.
-- Answer: how many were forgotten.
return redis.call('DEL', keys.call(ARGV[2]))
