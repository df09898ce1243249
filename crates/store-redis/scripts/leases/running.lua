-- Counts the jobs that hang on leases in one queue. Changes nothing.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2... leases
-- Answers a number for each.

local counts = {}
for i = 2, #ARGV do
  counts[i - 1] = redis.call('SCARD', keys.of_lease('running:', ARGV[i]))
end
return counts
