-- Records the outcome of attempts in one queue, each only if its fence holds. Reap is the same under another right.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 version of the definition that the outcomes were judged by,
--   3 what gives the right to write: 'fence', or 'lost' if the lease must have run out as well,
--   4 the states of which the queue keeps none, as their bytes, 5 how many outcomes, 6 how many runs of jobs that have
--   fence and outcome in common; then for each run what that is and how many jobs it has, then all ids (each once), by run,
--   then what follows for them, in order.
--   What a run has in common: 1-16 fence (number, nonce), 17-39 as the record begins with, 40 what follows for each of its
--   jobs: '0' and 1 delay in micros (8 bytes), 2 the rest of the attempt's record, 4 output; 8 if the output is above the
--   cap.
-- Answer: {'stale'}: judged by another definition; {'ok', answers}: a byte for each: the state that the job came to,
--   'f' fenced, 'l' its output is too large.
if (redis.call('HGET', META, 'version') or '0') ~= ARGV[2] then
  return { 'stale' }
end
local needs_lost, dropped, n, runs = ARGV[3] == 'lost', {}, tonumber(ARGV[5]), tonumber(ARGV[6])
for i = 1, #ARGV[4] do
  dropped[byte(ARGV[4], i)] = true
end
local STATES = {}
for code = S_SCHEDULED, S_CANCELLED do
  STATES[code] = string.char(code)
end
-- Ids come after this argument.
local before = 6 + 2 * runs
local records = redis.call('HMGET', JOBS, unpack(ARGV, before + 1, before + n))
local more = before + n + 1

local lives = {}
local function is_lost(lease)
  if lives[lease] == nil then
    local lease_until = redis.call('ZSCORE', LEASES, lease)
    lives[lease] = lease_until and tonumber(lease_until) > now or false
  end
  return not lives[lease]
end

local jobs, answers, written, ended = batch('HSET', JOBS), {}, 0, {}
local find = string.find
-- What jobs of the run have in common.
local number, nonce, outcome, state, flags, places

-- The outcome of one job, in the long form; answers the state that it came to, 'f' or 'l'. To find a text at its place
-- makes no new one.
local function settle(id, record, delay, attempt, output)
  local v = 85 + read('>I4', record, 78)
  if find(record, number, 24, true) ~= 24 or find(record, nonce, v + 1, true) ~= v + 1 then
    return 'f'
  end
  local lease = sub(record, v + 9, v + 24)
  if needs_lost and not is_lost(lease) then
    return 'f'
  elseif flags >= 8 then
    return 'l'
  end
  local running = batch('SREM', lease_key('running:', lease))
  running[#running + 1] = id
  local start, to, ends = outcome, state, places
  if byte(record, 2) % 2 == 1 then
    -- Somebody asked it to stop: it does not go back.
    add(batch('SREM', lease_key('stopping:', lease)), id)
    if to < S_COMPLETED then
      start, to, delay, ends = REQUESTED .. sub(outcome, 4), S_CANCELLED, nil, batch('ZADD', CANCELLED)
    end
  end
  ended[to] = (ended[to] or 0) + 1
  if dropped[to] then
    forget(id, record)
    return STATES[to]
  end
  if needs_lost and not ends then
    -- The attempt may still bring it to its end, as long as nothing else happens to it.
    start = sub(start, 1, 1) .. string.char(REAPED) .. sub(start, 3)
  end
  if attempt then
    local last = read('>I8', record, 24)
    add(batch('HSET', ATTEMPTS), id .. number, sub(record, 4, 7) .. now8 .. sub(record, v + 25) .. attempt)
    if last > ATTEMPTS_KEPT then
      add(batch('HDEL', ATTEMPTS), id .. pack('>I8', last - ATTEMPTS_KEPT))
    end
  end
  jobs[written + 1] = id
  if ends then
    jobs[written + 2] = start .. sub(record, 24, 65) .. now8 .. sub(record, 74)
    add(ends, now_text, sub(record, 40, 47) .. id)
    if output then add(batch('HSET', OUTPUTS), id, output) end
  else
    local due8 = delay and instant(now + delay) or sub(record, 32, 39)
    record = start .. sub(record, 24, 31) .. due8 .. sub(record, 40, 65) .. ZERO8 .. sub(record, 74)
    jobs[written + 2] = record
    enter(id, record)
    count(to, -1)
  end
  written = written + 2
  return STATES[to]
end

-- Most jobs complete in their first attempt. How their record begins tells state, fence and lease at once, and their ids
-- are gathered by lease.
local COMPLETED_FIRST, ONE8 = '40' .. sub(FIRST, 1, 21), sub(FIRST, 22)
local DONE, is_kept, firsts = string.char(S_DONE) .. now8, not dropped[S_COMPLETED], {}

local function firsts_of(lease)
  if not firsts[lease] then
    local ids = {}
    firsts[lease] = ids
    batches[#batches + 1] = { 'SREM', lease_key('running:', lease), ids }
    if not is_kept then forget_first(ids) end
  end
  return firsts[lease]
end

local i = 0
for run = 1, runs do
  local common, upto = ARGV[5 + 2 * run], i + ARGV[6 + 2 * run]
  number, nonce, outcome = sub(common, 1, 8), sub(common, 9, 16), sub(common, 17, 39)
  state, flags = byte(outcome, 1), byte(common, 40) - 48
  places = ENDED[state] and batch('ZADD', ENDED[state])
  local is_first = outcome == COMPLETED_FIRST and number == ONE8 and flags < 8 and not needs_lost
  local begin, ids
  while i < upto do
    i = i + 1
    local id, record, delay, attempt, output = ARGV[before + i], records[i], nil, nil, nil
    if flags ~= 0 then
      if flags % 2 >= 1 then delay, more = read('>I8', ARGV[more]), more + 1 end
      if flags % 4 >= 2 then attempt, more = ARGV[more], more + 1 end
      if flags % 8 >= 4 then output, more = ARGV[more], more + 1 end
    end
    if is_first and record and not (begin and find(record, begin, 1, true) == 1) then
      begin = byte(record, 1)
      begin = (begin == S_FIRST or begin == S_BEGUN) and find(record, nonce, 2, true) == 2 and sub(record, 1, 25) or nil
      ids = begin and firsts_of(sub(begin, 10))
    end
    if begin and record then
      ids[#ids + 1] = id
      if is_kept then
        jobs[written + 1] = id
        jobs[written + 2] = DONE .. sub(record, 2)
        written = written + 2
        local place = #places
        places[place + 1], places[place + 2] = now_text, sub(record, 42, 49) .. id
        if output then add(batch('HSET', OUTPUTS), id, output) end
      else
        release(sub(record, 60, 63))
      end
      answers[i] = STATES[S_COMPLETED]
    else
      record = record and expand(record)
      answers[i] = record and byte(record, 1) == S_RUNNING and settle(id, record, delay, attempt, output) or 'f'
    end
  end
end

for _, ids in pairs(firsts) do
  ended[S_COMPLETED] = (ended[S_COMPLETED] or 0) + #ids
end
local total = 0
for to, jobs_ended in pairs(ended) do
  total = total + jobs_ended
  if not dropped[to] then
    count(to, jobs_ended)
    if ENDED[to] then redis.call('ZCARD', ENDED[to]) end
  end
end
if total > 0 then
  count(S_RUNNING, -total)
  write()
  write_released()
end
return { 'ok', table.concat(answers) }
