-- Records the outcome of attempts in one queue, each only if its fence holds. Reap is the same under another right.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 3 what gives the right to write: 'fence', or 'lost' if the lease must have run out as well; the others are
--   outcomes (shared/outcomes).
-- Answer: {'stale'}: judged by another definition; {'ok', answers}: a byte for each: the state that the job came to,
--   'f' fenced, 'l' its output is too large.
if outcomes.is_stale then
  return { 'stale' }
end
local needs_lost, dropped = ARGV[3] == 'lost', outcomes.dropped
local found, answers = redis.call('HMGET', KEY.jobs, outcomes.ids()), {}
local complete, COMPLETED = first_attempts.complete, char(STATE.completed)
-- What jobs of the run have in common.
local number, nonce, outcome, state, is_large, is_first
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

-- The outcome of one job, its record in the long form or, if it has a key, as it is stored; answers the state that it came to, 'f' or 'l'.
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
    return char(to)
  end
  read_type(to)
  if ending then moves.keep_attempt(id, record, ending) end
  moves.change(id, record, start, delay and clock.instant(clock.now + delay))
  if output and to > STATE.running then batch.add(batch.of('HSET', KEY.outputs), id, output) end
  return char(to)
end

first_attempts.begin(not dropped[STATE.completed])
outcomes.walk(function(run_number, run_nonce, run_outcome, run_is_large)
  number, nonce, outcome, is_large = run_number, run_nonce, run_outcome, run_is_large
  state = byte(outcome)
  is_first = outcome == BYTES.completed_first and number == BYTES.one8 and not is_large and not needs_lost
  first_attempts.begin_run()
end, function(i, id, delay, ending, output)
  local record = found[i]
  if is_first and record and complete(id, record, nonce, output) then
    answers[i] = COMPLETED
  else
    -- What runs and has a key needs no other form to be settled.
    local form = record and byte(record)
    if form ~= STATE.running + FORM.gated_offset and form ~= STATE.running + FORM.keyed_offset or #record <= RECORD.content then
      record = record and records.expand(record)
    end
    answers[i] = record and settle(id, record, delay, ending, output) or 'f'
  end
end)

local firsts = first_attempts.tell_all()
if firsts > 0 and not dropped[STATE.completed] then read_type(STATE.completed) end
if firsts + settled > 0 then
  batch.write()
  blocks.write_released()
end
return { 'ok', table.concat(answers) }
