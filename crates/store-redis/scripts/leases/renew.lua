-- Lets the copy of a lease live on, unless it has run out, and tells which of its jobs here are asked to stop.
-- Of more than the limit it tells any, others at the next renewal: those that stopped are gone by then.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2 lease, 3 how long it lives in micros, 4 most to tell
-- Answers nil when it is lost, else a list of id and fence, 32 bytes each.

local expiry = redis.call('ZSCORE', KEY.leases, ARGV[2])
if not expiry or tonumber(expiry) <= clock.now then
  return false
end
-- Removed first: a server whose memory is full refuses what adds, unless something was written before.
redis.call('ZREM', KEY.leases, ARGV[2])
redis.call('ZADD', KEY.leases, clock.expiry_after(ARGV[3]), ARGV[2])
if ARGV[4] == '0' then
  return {}
end
local ids = redis.call('SRANDMEMBER', keys.of_lease('stopping:', ARGV[2]), ARGV[4])
if #ids == 0 then
  return {}
end
local found, asked = records.load(unpack(ids)), {}
for i, id in ipairs(ids) do
  local record = found[i]
  -- A job may have been taken by another lease since it was asked.
  if record and byte(record) == STATE.running and records.lease_of(record) == ARGV[2] then
    asked[#asked + 1] = id .. records.fence_of(record)
  end
end
return asked
