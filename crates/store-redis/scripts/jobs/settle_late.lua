-- Records the end of attempts in one queue that a reaper has put back meanwhile, each only if nothing has happened to its
-- job since.
-- KEYS: those of the queue.
-- ARGV: as those of jobs/settle; what gives the right to write is the fence.
-- Answer: as that of jobs/settle.
if (redis.call('HGET', META, 'version') or '0') ~= ARGV[2] then
  return { 'stale' }
end
local dropped, n, runs = {}, tonumber(ARGV[5]), tonumber(ARGV[6])
for i = 1, #ARGV[4] do
  dropped[byte(ARGV[4], i)] = true
end
local before = 6 + 2 * runs
local records = load_records(unpack(ARGV, before + 1, before + n))
local more, answers = before + n + 1, {}
for _, key in pairs(ENDED) do
  redis.call('ZCARD', key)
end

-- Whether a record is that of a job which a reaper took from this very attempt.
local function is_late(record, number, nonce)
  local v = v_end(record)
  return byte(record, 1) < S_RUNNING and byte(record, 2) == REAPED and sub(record, 24, 31) == number
    and sub(record, v + 1, v + 8) == nonce
end

-- The record of the attempt: that it was lost stays, and how it ended after all comes before it. See row/attempt.rs.
local function record_attempt(id, record, number, attempt)
  local lost = redis.call('HGET', ATTEMPTS, id .. number)
  if not lost then return end
  local rest = 23 + read('>I2', lost, 21)
  local late = sub(record, 4, 7) .. now8 .. attempt
  lost = sub(lost, 1, rest - 1) .. 'L' .. pack('>I4', #late) .. late .. sub(lost, rest)
  add(batch('HSET', ATTEMPTS), id .. number, lost)
end

local i = 0
for run = 1, runs do
  local common, upto = ARGV[5 + 2 * run], i + ARGV[6 + 2 * run]
  local number, nonce, outcome = sub(common, 1, 8), sub(common, 9, 16), sub(common, 17, 39)
  local state, flags = byte(outcome, 1), byte(common, 40) - 48
  local start = sub(outcome, 1, 1) .. string.char(REAPED) .. sub(outcome, 3)
  while i < upto do
    i = i + 1
    local id, record, attempt, output = ARGV[before + i], records[i], nil, nil
    if flags % 2 >= 1 then more = more + 1 end
    if flags % 4 >= 2 then attempt, more = ARGV[more], more + 1 end
    if flags % 8 >= 4 then output, more = ARGV[more], more + 1 end
    if not ENDED[state] or not record or not is_late(record, number, nonce) then
      answers[i] = 'f'
    elseif flags >= 8 then
      answers[i] = 'l'
    else
      leave(id, record)
      if dropped[state] then
        forget(id, record)
      else
        if attempt then record_attempt(id, record, number, attempt) end
        record = start .. sub(record, 24, 65) .. now8 .. sub(record, 74)
        add(batch('HSET', JOBS), id, record)
        enter(id, record)
        if output then add(batch('HSET', OUTPUTS), id, output) end
      end
      answers[i] = string.char(state)
    end
  end
end
write_anyway()
write_released()
return { 'ok', table.concat(answers) }
