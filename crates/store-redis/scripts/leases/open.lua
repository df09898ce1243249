-- Puts the copy of a lease beside the jobs of one of its queues. One that is there stays as it is.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2 lease, 3 how long it lives in micros
-- Answers nothing.

-- A removal first: a server whose memory is full takes what follows one, and a worker must be able to come back.
redis.call('ZREM', KEY.leases, '')
redis.call('ZADD', KEY.leases, 'NX', clock.expiry_after(ARGV[3]), ARGV[2])
