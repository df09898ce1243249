-- Reads jobs of one queue without their attempts. Changes nothing.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2... ids
-- Answers four lists: records, payloads that stand apart, outputs, progress; nil for what there is none of. A strange
-- record comes as it is stored.

local found, strange = records.load(unpack(ARGV, 2))
local payloads = {}
for i, record in ipairs(found) do
  local is_apart = record and read('>I4', record, RECORD.payload) > MAX.inline
  payloads[i] = is_apart and redis.call('HGET', KEY.bodies, ARGV[i + 1])
  found[i] = record or strange[i] or false
end
local outputs = redis.call('HMGET', KEY.outputs, unpack(ARGV, 2))
return { found, payloads, outputs, redis.call('HMGET', KEY.progress, unpack(ARGV, 2)) }
