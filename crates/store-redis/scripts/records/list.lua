-- Reads records of a queue in the order of their keys. Changes nothing.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 and 3 where keys begin and end, as ranges by bytes say it, 4 how many records, 5 how many bytes of values
--   are enough.
-- Answer: {key to go on after, '' if there are no more, 'e' if there is enough and else '', then of each its key, its record
--   (KEPT), and its value if that stands apart, else ''}.
local LOOKED_AT_MAX, AT_ONCE = 1000, 100
local most, enough, bytes, looked_at = tonumber(ARGV[4]), tonumber(ARGV[5]), 0, 0
local from, answers, n = ARGV[2], { '', '' }, 0
while looked_at < LOOKED_AT_MAX do
  local names = redis.call('ZRANGEBYLEX', remembered.names, from, ARGV[3], 'LIMIT', 0, AT_ONCE)
  local found = #names > 0 and redis.call('HMGET', remembered.heads, unpack(names)) or {}
  for i, key in ipairs(names) do
    local record, value = found[i], ''
    local is_whole = record and #record >= KEPT.length_end
    if record and not (is_whole and remembered.is_over(record)) then
      if n == most or bytes >= enough then
        answers[2] = 'e'
        return answers
      end
      local length = is_whole and read('>I4', record, KEPT.length) or 0
      bytes = bytes + length
      if length > MAX.inline then value = redis.call('HGET', remembered.values, key) or '' end
      n = n + 1
      answers[3 * n], answers[3 * n + 1], answers[3 * n + 2] = key, record, value
    end
    answers[1], looked_at = key, looked_at + 1
  end
  if #names < AT_ONCE then
    answers[1] = ''
    return answers
  end
  from = '(' .. names[#names]
end
return answers
