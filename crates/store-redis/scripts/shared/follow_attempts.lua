-- Goes through attempts of one queue that end or go on, and writes what follows them.
-- Answer: as records/follow says.
-- Needs: follow, and `ends` as the right to write is.
local function follow_attempts()
  if outcomes.is_stale then
    return { 'stale' }
  end
  local found, answers, details = redis.call('HMGET', KEY.jobs, outcomes.ids()), {}, {}
  local is_kept, COMPLETED, RUNNING = not outcomes.dropped[STATE.completed], char(STATE.completed), char(STATE.running)
  local nonce, is_first, goes_on, is_withheld
  -- What is to be written of the attempt.
  local id, record, delay, ending, output

  local function finish_first()
    first_attempts.complete(id, record, nonce, output)
    if is_kept then return COMPLETED end
    return COMPLETED, false
  end

  local function finish()
    return ends.settle(id, record, delay, ending, output)
  end

  local function go_on()
    return RUNNING
  end

  first_attempts.begin(is_kept)
  follow.read()
  outcomes.walk(function(number, run_nonce, outcome, is_large, lasts)
    nonce, goes_on, is_first = run_nonce, lasts, ends.begin_run(number, run_nonce, outcome, is_large)
    first_attempts.begin_run()
  end, function(i, ...)
    id, delay, ending, output = ...
    local stored, answer, place, version = follow.replaced(id) or found[i], nil, nil, nil
    if is_first and stored and first_attempts.is_one(stored, nonce) then
      record = stored
      answer, place, version = follow.write(i, id, true, true, finish_first)
    else
      record = stored and records.expand(stored)
      local is_held = record and ends.holds(record)
      answer, place, version = follow.write(i, id, is_held, goes_on or is_held and not ends.is_turned(record),
        goes_on and go_on or finish)
    end
    answers[i] = answer
    if place then details[#details + 1], details[#details + 2] = place, version or '' end
    is_withheld = is_withheld or byte(answer) == byte('w')
  end)
  if is_withheld then
    return { 'whole' }
  end
  local firsts = first_attempts.tell_all()
  if firsts > 0 and is_kept then ends.read_type(STATE.completed) end
  follow.finish(firsts + ends.number() > 0)
  return { 'ok', table.concat(answers), details, posts.first, posts.seq, posts.at, posts.waiting }
end

-- Payloads that were written before the script are those of one attempt.
local function follow_or_undo()
  follow.begin()
  if packed.are_given then
    return follow_attempts()
  end
  return run_or_undo(follow_attempts, function(answer) return answer[1] == 'ok' and sub(answer[2], -1) == '1' end,
    packed.discard)
end
