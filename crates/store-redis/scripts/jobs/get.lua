-- Looks jobs of one queue up, with all that is kept of them.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2- ids.
-- Answer: for each id {} if it is not there, else {record, payload if it stands apart, output, progress,
--   fence number of the first record of an attempt, records of attempts ...}; what there is none of is null. A strange
--   record comes as it is stored, without attempts.
local answers = {}
local found, strange = records.load(unpack(ARGV, 2))
local outputs = redis.call('HMGET', KEY.outputs, unpack(ARGV, 2))
local progress = redis.call('HMGET', KEY.progress, unpack(ARGV, 2))
for i, record in ipairs(found) do
  local id = ARGV[1 + i]
  answers[i] = strange[i] and { strange[i], false, outputs[i], progress[i], 1 } or {}
  if record then
    local payload = read('>I4', record, RECORD.payload) > MAX.inline and redis.call('HGET', KEY.bodies, id) or false
    local last = read('>I8', record, RECORD.fence)
    local from = math.max(1, last - MAX.attempts + 1)
    local answer = { record, payload, outputs[i], progress[i], from }
    if last > 0 then
      local fields = {}
      for number = from, last do
        fields[#fields + 1] = id .. pack('>I8', number)
      end
      for _, attempt in ipairs(redis.call('HMGET', KEY.attempts, unpack(fields))) do
        answer[#answer + 1] = attempt
      end
    end
    answers[i] = answer
  end
end
return answers
