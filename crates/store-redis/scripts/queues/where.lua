-- Tells which jobs are in a queue. Changes nothing.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2... ids
-- Answers the places (from 1) of those that are.

local found = {}
for i = 2, #ARGV do
  if redis.call('HEXISTS', KEY.jobs, ARGV[i]) == 1 then
    found[#found + 1] = i - 1
  end
end
return found
