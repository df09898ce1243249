-- Lets the copy of a lease live on, unless it has run out, and tells which of its jobs here are asked to stop.
-- Of more than the limit it tells any, others at the next renewal: those that stopped are gone by then.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2 lease, 3 how long it lives in micros, 4 most to tell
-- Answers nil when it is lost, else a list of id and fence, 32 bytes each.

local expiry = redis.call('ZSCORE', LEASES, ARGV[2])
if not expiry or tonumber(expiry) <= now then
  return false
end
-- Removed first: a server whose memory is full refuses what adds, unless something was written before.
redis.call('ZREM', LEASES, ARGV[2])
redis.call('ZADD', LEASES, expiry_after(ARGV[3]), ARGV[2])
if ARGV[4] == '0' then
  return {}
end
local ids = redis.call('SRANDMEMBER', lease_key('stopping:', ARGV[2]), ARGV[4])
if #ids == 0 then
  return {}
end
-- A job may have been taken by another lease since it was asked.
local function runs_under(record, lease)
  local from = v_end(record) + 9
  return byte(record, 1) == S_RUNNING and sub(record, from, from + 15) == lease
end

local function fence_of(record)
  local from = v_end(record) + 1
  return sub(record, 24, 31) .. sub(record, from, from + 7)
end

local records = load_records(unpack(ids))
local asked = {}
for i, id in ipairs(ids) do
  local record = records[i]
  if record and runs_under(record, ARGV[2]) then
    asked[#asked + 1] = id .. fence_of(record)
  end
end
return asked
