-- Reads which records of leases have run out, the longest lost first.
--
-- KEYS 1 lease-expiry
-- ARGV 1 clock, 2 how many to skip, 3 how many to read
-- Answers leases.

return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', clock.now, 'LIMIT', ARGV[2], ARGV[3])
