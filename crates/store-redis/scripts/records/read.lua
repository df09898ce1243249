-- Reads records of a queue by their keys, as many as the bytes of one answer permit. Changes nothing.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 how many bytes of values are enough, 3- keys.
-- Answer: for each key, up to one that there was no room for, its record (KEPT), '' if there is none, and its value if that
--   stands apart, else ''.
local enough, bytes, answers = tonumber(ARGV[2]), 0, {}
local found = redis.call('HMGET', remembered.heads, unpack(ARGV, 3))
for i, record in ipairs(found) do
  local value = ''
  if record and #record >= KEPT.length_end then
    local length = read('>I4', record, KEPT.length)
    if remembered.is_over(record) then
      record = ''
    else
      if bytes >= enough then break end
      bytes = bytes + length
      if length > MAX.inline then value = redis.call('HGET', remembered.values, ARGV[2 + i]) or '' end
    end
  end
  answers[2 * i - 1], answers[2 * i] = record or '', value
end
return answers
