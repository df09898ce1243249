-- Records the outcome of attempts in one queue, each only if its fence holds. Reap is the same under another right.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 version of the definition that the outcomes were judged by,
--   3 what gives the right to write: 'fence', or 'lost' if the lease must have run out as well,
--   4 the states of which the queue keeps none, as their bytes, 5 how many; then so many ids (each once), fences (number,
--   nonce) and outcomes: 1-23 as the record begins with, 24 what follows for it at the end of all: '0' and 1 delay in micros (8 bytes),
--   2 the rest of the attempt's record, 4 output; 8 if the output is above the cap.
-- Answer: {'stale'}: judged by another definition; {'ok', answers}: a byte for each: the state that the job came to,
--   'f' fenced, 'l' its output is too large.
if (redis.call('HGET', META, 'version') or '0') ~= ARGV[2] then
  return { 'stale' }
end
local needs_lost, dropped, n = ARGV[3] == 'lost', {}, tonumber(ARGV[5])
for i = 1, #ARGV[4] do
  dropped[byte(ARGV[4], i)] = true
end
local STATES = {}
for code = S_SCHEDULED, S_CANCELLED do
  STATES[code] = string.char(code)
end
local records = redis.call('HMGET', JOBS, unpack(ARGV, 6, 5 + n))
local more = 6 + 3 * n

local lives = {}
local function is_lost(lease)
  if lives[lease] == nil then
    local lease_until = redis.call('ZSCORE', LEASES, lease)
    lives[lease] = lease_until and tonumber(lease_until) > now or false
  end
  return not lives[lease]
end

local jobs, answers, written, ended = batch('HSET', JOBS), {}, 0, {}
-- What the newest outcome says, where jobs that end so go, the parts of the newest fence, and the newest job's lease.
local outcome_before, outcome, state, flags, places, fence_before, number, nonce, running
local find, lease = string.find, nil
for i = 1, n do
  local id, record, fence, said = ARGV[5 + i], records[i], ARGV[5 + n + i], ARGV[5 + 2 * n + i]
  if said ~= outcome_before then
    outcome_before, outcome, state, flags = said, sub(said, 1, 23), byte(said, 1), byte(said, 24) - 48
    places = ENDED[state] and batch('ZADD', ENDED[state])
  end
  local delay, attempt, output
  if flags ~= 0 then
    if flags % 2 >= 1 then delay, more = read('>I8', ARGV[more]), more + 1 end
    if flags % 4 >= 2 then attempt, more = ARGV[more], more + 1 end
    if flags % 8 >= 4 then output, more = ARGV[more], more + 1 end
  end
  local answer, v = 'f', nil
  if record and byte(record, 1) == S_RUNNING then
    v = 85 + read('>I4', record, 78)
    if fence ~= fence_before then
      fence_before, number, nonce = fence, sub(fence, 1, 8), sub(fence, 9)
    end
    -- To find a text at its place makes no new one.
    if find(record, number, 24, true) == 24 and find(record, nonce, v + 1, true) == v + 1 then
      if not lease or find(record, lease, v + 9, true) ~= v + 9 then
        lease = sub(record, v + 9, v + 24)
        running = batch('SREM', lease_key('running:', lease))
      end
      if not needs_lost or is_lost(lease) then
        answer = flags >= 8 and 'l' or nil
      end
    end
  end
  if not answer then
    running[#running + 1] = id
    local start, to, ends = outcome, state, places
    if byte(record, 2) == 49 then
      -- Somebody asked it to stop: it does not go back.
      add(batch('SREM', lease_key('stopping:', lease)), id)
      if to < S_COMPLETED then
        start, to, delay, ends = REQUESTED .. sub(outcome, 4), S_CANCELLED, nil, batch('ZADD', CANCELLED)
      end
    end
    ended[to] = (ended[to] or 0) + 1
    if dropped[to] then
      forget(id, record)
    else
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
        local place = #ends
        ends[place + 1], ends[place + 2] = now_text, sub(record, 40, 47) .. id
        if output then add(batch('HSET', OUTPUTS), id, output) end
      else
        local due8 = delay and instant(now + delay) or sub(record, 32, 39)
        record = start .. sub(record, 24, 31) .. due8 .. sub(record, 40, 65) .. ZERO8 .. sub(record, 74)
        jobs[written + 2] = record
        enter(id, record)
        count(to, -1)
      end
      written = written + 2
    end
    answer = STATES[to]
  end
  answers[i] = answer
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
