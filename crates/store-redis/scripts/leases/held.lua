-- Finds jobs of one queue that hang on a lease and were handed out under a nonce. Changes nothing.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2 lease, 3 nonce, 4 where to go on in the set of jobs that hang on it (0: at its beginning)
-- Answers where to go on (0: there are no more), then id and record of each job; one may come twice.

-- Jobs that one call looks at, about.
local STEP = 250

local page = redis.call('SSCAN', keys.of_lease('running:', ARGV[2]), ARGV[4], 'COUNT', STEP)
local found, ids = { page[1] }, page[2]
for from = 1, #ids, STEP do
  for i, record in ipairs((records.load(unpack(ids, from, math.min(from + STEP - 1, #ids))))) do
    local claim = record and byte(record) == STATE.running and records.content_end(record)
    if claim and sub(record, claim + CLAIM.nonce, claim + CLAIM.lease_end) == ARGV[3] .. ARGV[2] then
      found[#found + 1] = ids[from + i - 1]
      found[#found + 1] = record
    end
  end
end
return found
