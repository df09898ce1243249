-- The ends of attempts, and what is put back: each only if its fence holds, and for a reaper only if its lease has run out.
-- ARGV: 3 what gives the right to write: 'fence', or 'lost' if the lease must have run out as well.
-- Needs: keys, clock, records, batch, places, moves, outcomes.
local ends = (function()
  local needs_lost, dropped = ARGV[3] == 'lost', outcomes.dropped
  -- What jobs of the run have in common.
  local number, nonce, outcome, state, is_large
  local lives, settled, types_read = {}, 0, {}

  local function is_lost(lease)
    if lives[lease] == nil then
      local lease_until = redis.call('ZSCORE', KEY.leases, lease)
      lives[lease] = lease_until and tonumber(lease_until) > clock.now or false
    end
    return not lives[lease]
  end

  -- Reads an order that is written to, so that a key of another type ends the script before it has written.
  local function read_type(to)
    if places.ENDED[to] and not types_read[to] then
      types_read[to] = redis.call('ZCARD', places.ENDED[to])
    end
  end

  -- Whether a job runs in the attempt of this fence, and may be written. To find a text at its place makes
  -- no new one.
  local function holds(record)
    local nonce_at = records.content_end(record) + CLAIM.nonce
    return records.state_of(record) == STATE.running and find(record, number, RECORD.fence, true) == RECORD.fence
      and find(record, nonce, nonce_at, true) == nonce_at and not (needs_lost and not is_lost(records.lease_of(record)))
  end

  -- The outcome of one job, its record in the long form or, if it has a key, as it is stored; answers the state that it came to,
  -- 'f' or 'l', and the record that is stored then, false if the job is gone.
  local function settle(id, record, delay, ending, output)
    if not holds(record) then
      return 'f'
    elseif is_large then
      return 'l'
    end
    local start, to = outcome, state
    if to < STATE.completed then
      if byte(record, RECORD.flags) % 2 == 1 then
        -- It was asked to stop: it does not go back.
        start, to = BYTES.requested .. sub(outcome, RECORD.attempt), STATE.cancelled
      elseif needs_lost then
        -- The attempt may still bring it to its end, as long as nothing else happens to it.
        start = char(to, FLAGS.reaped) .. sub(outcome, RECORD.reason)
      end
    end
    settled = settled + 1
    if dropped[to] then
      moves.remove(id, record, to, byte(start, RECORD.reason))
      return char(to), false
    end
    read_type(to)
    if ending then moves.keep_attempt(id, record, ending) end
    local becomes = moves.change(id, record, start, delay and clock.instant(clock.now + delay))
    if output and to > STATE.running then batch.add(batch.of('HSET', KEY.outputs), id, output) end
    return char(to), becomes
  end

  return {
    holds = holds,
    settle = settle,
    read_type = read_type,
    -- Begins a run of jobs that have these in common. Answers whether first_attempts may complete them.
    begin_run = function(run_number, run_nonce, run_outcome, run_is_large)
      number, nonce, outcome, is_large = run_number, run_nonce, run_outcome, run_is_large
      state = byte(outcome)
      return outcome == BYTES.completed_first and number == BYTES.one8 and not is_large and not needs_lost
    end,
    -- Whether a request to stop turns the outcome into another one.
    is_turned = function(record) return state < STATE.completed and byte(record, RECORD.flags) % 2 == 1 end,
    -- How many were settled.
    number = function() return settled end,
  }
end)()
