-- Reads jobs of one queue without their attempts. Changes nothing.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2... ids
-- Answers four lists: records, payloads that stand apart, outputs, progress; nil for what there is none of. A strange
-- record comes as it is stored.

local records, strange = load_records(unpack(ARGV, 2))
local payloads = {}
for i, record in ipairs(records) do
  local is_apart = record and read('>I4', record, 74) > INLINE_MAX
  payloads[i] = is_apart and redis.call('HGET', BODIES, ARGV[i + 1])
  records[i] = record or strange[i] or false
end
return { records, payloads, redis.call('HMGET', OUTPUTS, unpack(ARGV, 2)), redis.call('HMGET', PROGRESS, unpack(ARGV, 2)) }
