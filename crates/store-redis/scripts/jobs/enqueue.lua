-- Accepts jobs of one queue: all of them or none. From a transfer, those whose id is free.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 version of the definition that the jobs were judged by ('' for a transfer),
--   3 queue that the transfer came from ('' if it is none), 4 the transfer's number, 5 seq and instant of its acceptance,
--   with a blank between them, 6 '1' if the caller has entered the queue in this call, 7 how far each of the transfer's
--   jobs is from that seq (4 bytes each; '' for one after the other), 8 the call (shared/calls; '' for a transfer),
--   9 how many jobs may wait here ('' for any number, and for a transfer), 10- jobs (shared/packed).
-- Answer: {'stale'}: judged by another definition; {'unentered'}: the queue is new, or was removed, and has to be entered
--   first; {'known'}: the transfer was applied before; {'repeated'}: the call was; {'rules', rule}: the queue of a transfer
--   uses a rule that this program does not know (for a call, the definition says so);
--   {'whole'}: payloads have to be given, for a job is there already, or what was written before has gone;
--   {'taken', i}, {'strange', i}, {'large', i}: the i-th job is refused, and so are all;
--   {'full', waiting}: so many jobs wait, and there is no room for those that are new;
--   {'ok', answers, 1 if the queue was not there}: a byte for each job: 'r' now ready, 's' now scheduled, 'd' not stored since
--   another job holds its unique key, 'p' the same and that job was replaced, else it was there: its state, and 't' from a
--   transfer if it is another job; after them, for each 'd' and 'p', the id of the holder and its state, '-' if it is gone.
-- How long what was answered of a transfer is kept, if its jobs have unique keys: as long as a call is remembered.
local SAID_MILLIS = 120000
local source, transfer, offsets, call, capacity = ARGV[3], tonumber(ARGV[4]), ARGV[7], ARGV[8], tonumber(ARGV[9])
local is_call = source == ''
packed.begin(10)

local function enqueue()
  local meta, rules = redis.call('HMGET', KEY.meta, 'version', 'seq', 'block'), nil
  if is_call then
    if (meta[1] or '0') ~= ARGV[2] then
      return { 'stale' }
    end
  elseif tonumber(redis.call('HGET', KEY.received, source) or 0) >= transfer then
    return { 'known' }
  else
    rules = redis.call('HGET', KEY.meta, 'rules')
    if rules and tonumber(rules) > RULES.known then
      return { 'rules', rules }
    end
  end
  if not (meta[2] or meta[1]) and ARGV[6] == '' then
    return { 'unentered' }
  end
  local there, strange = packed.there()

  -- Places are counted from the first job of the call, which may have gone to another queue or by an earlier transfer.
  local passed = offsets == '' and 0 or read('>I4', offsets)
  if is_call then
    accept.begin(meta[2], meta[3], clock.now, clock.real, passed)
  else
    local seq, at = string.match(ARGV[5], '^(%d+) (%d+)$')
    accept.begin(meta[2], meta[3], tonumber(at), tonumber(seq), passed)
  end

  -- A repeat is one also where its jobs would be refused by now.
  local function refuse(word, i)
    return calls.is_repeated(call) and { 'repeated' } or { word, i }
  end

  local answers, job, accept_job = {}, packed.job, accept.job
  for i = 1, packed.number do
    local id, head, content, is_large, body = job(i)
    local record, is_written = there[i], body == true
    local before = not record and accept.conflicts and accept.conflicts.entered(id)
    if body == true then
      if record or strange[i] or not packed.is_written(id, head) then
        return refuse('whole')
      end
      body = nil
    end
    if before then
      if packed.is_same(id, nil, head, content, body, before) then
        answers[i] = char(before.state)
      elseif is_call then
        return refuse('taken', i)
      else
        answers[i] = 't'
      end
    elseif record or strange[i] then
      if record and packed.is_same(id, record, head, content, body) then
        answers[i] = char(byte(record))
      elseif is_call then
        return refuse(record and 'taken' or 'strange', i)
      else
        answers[i] = 't'
      end
    elseif is_large and is_call then
      return refuse('large', i)
    else
      local offset = offsets ~= '' and read('>I4', offsets, WIDTH.u32 * (i - 1) + 1) or nil
      answers[i] = accept_job(id, head, content, body, offset)
      if is_written and (answers[i] == 'd' or answers[i] == 'p') then batch.add(batch.of('HDEL', KEY.bodies), id) end
    end
  end

  local has_new, keyed = accept.number() > 0, accept.conflicts
  if capacity and has_new then
    local waiting = 0
    for _, count in ipairs(redis.call('HMGET', KEY.meta, 'c0', 'c1', 'c2')) do
      waiting = waiting + (tonumber(count) or 0)
    end
    if waiting + accept.number() > capacity then return refuse('full', waiting) end
  end
  local answer = table.concat(answers) .. (keyed and keyed.met() or '')
  -- More than this call adds.
  if keyed then uniques().forget(2 * packed.number) end
  if not has_new and not (keyed and keyed.has_replaced) then
    -- Nothing grows but the memory of the call, which goes by itself: a removal first, and a full server takes it.
    redis.call('HDEL', KEY.jobs, '')
  end
  batch.prepare()
  -- The first write is one that a server without memory refuses.
  if not is_call then
    redis.call('HSET', KEY.received, source, ARGV[4])
  elseif not calls.remember(call) then
    return { 'repeated' }
  end
  if has_new or keyed then
    accept.write(meta[3])
  end
  if accept.is_gated and not is_call and (tonumber(rules) or 0) < RULES.keys then
    -- The queue was removed since the call was accepted. No claim would look for them otherwise.
    redis.call('HSET', KEY.meta, 'rules', RULES.keys)
  end
  if keyed and is_call and keyed.number == packed.number then
    redis.call('DEL', keys.call(call))
  elseif keyed and not is_call then
    redis.call('SET', keys.prefix .. NAME.said .. source .. ':' .. ARGV[4], answer, 'PX', SAID_MILLIS)
  end
  return { 'ok', answer, (meta[1] or meta[2]) and 0 or 1 }
end

if packed.are_given then
  return enqueue()
end
return run_or_undo(enqueue, function(answer) return answer[1] == 'ok' end, packed.discard)
