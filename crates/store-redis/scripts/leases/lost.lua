-- Finds running jobs of one queue whose lease has run out. Changes nothing.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2 how many lost leases to skip, 3 most jobs to answer
-- Answers how many leases to skip next time (-1: there are no more), how many jobs are strange, then id and record of each
-- other one. What is strange does not say its fence, and is left to a program that knows it.

-- Leases that one call looks at.
local STEP = 50

local limit = tonumber(ARGV[3])
local leases = redis.call('ZRANGEBYSCORE', KEY.leases, '-inf', clock.now, 'LIMIT', ARGV[2], STEP)
local found = {-1, 0}
if #leases == STEP then
  found[1] = ARGV[2] + STEP
end
for _, lease in ipairs(leases) do
  if limit == 0 then
    break
  end
  local ids = redis.call('SRANDMEMBER', keys.of_lease('running:', lease), limit)
  if #ids > 0 then
    local loaded, strange = records.load(unpack(ids))
    for i, id in ipairs(ids) do
      if loaded[i] then
        found[#found + 1] = id
        found[#found + 1] = loaded[i]
        limit = limit - 1
      elseif strange[i] then
        found[2] = found[2] + 1
      end
    end
  end
end
return found
