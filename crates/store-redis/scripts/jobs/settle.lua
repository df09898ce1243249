-- Records the outcome of attempts in one queue, each only if its fence holds. Reap is the same under another right.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 3 what gives the right to write (shared/ends); the others are outcomes (shared/outcomes).
-- Answer: {'stale'}: judged by another definition; {'ok', answers}: a byte for each: the state that the job came to,
--   'f' fenced, 'l' its output is too large.
if outcomes.is_stale then
  return { 'stale' }
end
local dropped = outcomes.dropped
local found, answers = redis.call('HMGET', KEY.jobs, outcomes.ids()), {}
local complete, settle, COMPLETED = first_attempts.complete, ends.settle, char(STATE.completed)
local nonce, is_first

first_attempts.begin(not dropped[STATE.completed])
outcomes.walk(function(number, run_nonce, outcome, is_large)
  nonce, is_first = run_nonce, ends.begin_run(number, run_nonce, outcome, is_large)
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
if firsts > 0 and not dropped[STATE.completed] then ends.read_type(STATE.completed) end
if firsts + ends.number() > 0 then
  batch.write()
  blocks.write_released()
end
return { 'ok', table.concat(answers) }
