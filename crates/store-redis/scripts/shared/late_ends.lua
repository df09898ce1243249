-- The ends of attempts that a reaper has put back meanwhile, each only if nothing has happened to its job since.
-- Needs: keys, clock, records, batch, places, moves, outcomes.
local ends = (function()
  -- What jobs of the run have in common.
  local number, nonce, start, state, is_large
  local settled = 0

  -- Whether a record is that of a job which a reaper took from this very attempt, and it comes to an end.
  local function holds(record)
    return places.ENDED[state] and byte(record) < STATE.running
      and byte(record, RECORD.flags) % FLAGS.key == FLAGS.reaped % FLAGS.key and records.fence_of(record) == number .. nonce
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

  -- As in shared/ends.
  local function settle(id, record, _, ending, output)
    if not holds(record) then
      return 'f'
    elseif is_large then
      return 'l'
    end
    settled = settled + 1
    if outcomes.dropped[state] then
      moves.remove(id, record, state, byte(start, RECORD.reason))
      return char(state), false
    end
    if ending then record_late(id, record, ending) end
    local becomes = moves.change(id, record, start)
    if output then batch.add(batch.of('HSET', KEY.outputs), id, output) end
    return char(state), becomes
  end

  for _, key in pairs(places.ENDED) do
    redis.call('ZCARD', key)
  end

  return {
    holds = holds,
    settle = settle,
    read_type = function() end,
    begin_run = function(run_number, run_nonce, outcome, run_is_large)
      number, nonce, state, is_large = run_number, run_nonce, byte(outcome), run_is_large
      start = char(state, FLAGS.reaped) .. sub(outcome, RECORD.reason)
      return false
    end,
    is_turned = function() return false end,
    number = function() return settled end,
  }
end)()
