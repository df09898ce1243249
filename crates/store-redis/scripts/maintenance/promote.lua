-- Moves jobs of one queue whose expiry has come to dead, and those whose time has come to ready.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2 most that expire, 3 most that become ready
-- Answers how many expired, how many are ready now, and how many transfers to other queues wait here.

clear_line(250)
return { expire(ARGV[2]), promote(ARGV[3]), redis.call('XLEN', TRANSFERS) }
