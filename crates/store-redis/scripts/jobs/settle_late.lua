-- Records the end of attempts in one queue that a reaper has put back meanwhile, each only if nothing has happened to its
-- job since.
-- KEYS: those of the queue.
-- ARGV: 1 clock; the others are outcomes (shared/outcomes).
-- Answer: as that of jobs/settle.
if outcomes.is_stale then
  return { 'stale' }
end
local found, answers = records.load(outcomes.ids()), {}
for _, key in pairs(places.ENDED) do
  redis.call('ZCARD', key)
end
-- What jobs of the run have in common.
local number, nonce, start, state, is_large

-- Whether a record is that of a job which a reaper took from this very attempt.
local function is_late(record)
  return byte(record) < STATE.running and byte(record, RECORD.flags) % FLAGS.key == FLAGS.reaped % FLAGS.key
    and records.fence_of(record) == number .. nonce
end

-- The record of the attempt: that it was lost stays, and how it ended after all comes before it. See row/attempt.rs.
local function record_late(id, record, ending)
  local lost = redis.call('HGET', KEY.attempts, id .. number)
  if not lost then return end
  local before = ATTEMPT.label_length_end + read('>I2', lost, ATTEMPT.label_length)
  local late = sub(record, RECORD.attempt, RECORD.attempt_end) .. clock.now8 .. ending
  lost = sub(lost, 1, before) .. 'L' .. pack('>I4', #late) .. late .. sub(lost, before + 1)
  batch.add(batch.of('HSET', KEY.attempts), id .. number, lost)
end

local function settle(id, record, ending, output)
  if not places.ENDED[state] or not record or not is_late(record) then
    return 'f'
  elseif is_large then
    return 'l'
  elseif outcomes.dropped[state] then
    moves.remove(id, record, state, byte(start, RECORD.reason))
    return char(state)
  end
  if ending then record_late(id, record, ending) end
  moves.change(id, record, start)
  if output then batch.add(batch.of('HSET', KEY.outputs), id, output) end
  return char(state)
end

outcomes.walk(function(run_number, run_nonce, outcome, run_is_large)
  number, nonce, state, is_large = run_number, run_nonce, byte(outcome), run_is_large
  start = char(state, FLAGS.reaped) .. sub(outcome, RECORD.reason)
end, function(i, id, _, ending, output)
  answers[i] = settle(id, found[i], ending, output)
end)
batch.write_anyway()
blocks.write_released()
return { 'ok', table.concat(answers) }
