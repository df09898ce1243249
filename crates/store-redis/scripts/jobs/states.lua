-- The states of jobs of one queue.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2- ids.
-- Answer: a byte for each id, the digit of its state or '-' if it is not there. A strange record says what it can.
local answers = {}
local found, strange = records.load(unpack(ARGV, 2))
for i, record in ipairs(found) do
  answers[i] = record and char(byte(record)) or strange[i] and records.strange_state(strange[i]) or '-'
end
return table.concat(answers)
