-- Accepts jobs of one queue, all of them or none, as jobs/enqueue says, with what may be written beside them: `beside.refuse()`
-- is asked before the first write, and answers what the script does if it refuses; `beside.write()` comes last. Mostly there
-- is nothing beside them.
-- Needs: all that jobs/enqueue has. The caller has begun `packed`.
-- How long what was answered of a transfer is kept, if its jobs have unique keys: as long as a call is remembered.
local SAID_MILLIS = 120000
local source, transfer, offsets, call, capacity = ARGV[3], tonumber(ARGV[4]), ARGV[7], ARGV[8], tonumber(ARGV[9])
local is_call = source == ''

-- Whether no job is there under the ids that are handed in.
local function are_new(there, number)
  for i = 1, number do
    if there[i] then return false end
  end
  return true
end

local function enqueue(beside)
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

  local answers, said_number, number = {}, 0, packed.number

  local function say(said)
    said_number = said_number + 1
    answers[said_number] = said
  end

  -- Accepts one job. Answers what the script does if it is refused.
  local function accept_one(i)
    local id, head, content, is_large, body = packed.job(i)
    local record, is_written = there[i], body == true
    local before = not record and packed.has_repeats and accept.conflicts and accept.conflicts.entered(id)
    if is_written then
      if record or strange[i] or not packed.is_written(id, head) then
        return refuse('whole')
      end
      body = nil
    end
    if before or record or strange[i] then
      if (before or record) and packed.is_same(id, record, head, content, body, before) then
        say(char(before and before.state or byte(record)))
      elseif is_call then
        return refuse((before or record) and 'taken' or 'strange', i)
      else
        say('t')
      end
    elseif is_large and is_call then
      return refuse('large', i)
    else
      local offset = offsets ~= '' and read('>I4', offsets, WIDTH.u32 * (i - 1) + 1) or nil
      local said = accept.job(id, head, content, body, i, offset)
      say(said)
      if is_written and (said == 'd' or said == 'p') then batch.add(batch.of('HDEL', KEY.bodies), id) end
    end
  end

  -- Mostly all jobs of a call are new: then those that have their head in common are accepted together.
  local i, is_new = 0, offsets == '' and not packed.has_repeats and next(strange) == nil and are_new(there, number)
  while i < number do
    local head, count, id_at, content_at = nil, 0, nil, nil
    if is_new then head, count, id_at, content_at = packed.run(i + 1) end
    if head and count > 1 then
      local said = accept.run(head, count, id_at, content_at, i)
      is_new = said ~= nil
      if said then
        packed.pass_run()
        say(string.rep(said, count))
        i = i + count
      end
    else
      i = i + 1
      local refused = accept_one(i)
      if refused then return refused end
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
  local refused = beside and beside.refuse()
  if refused then return calls.is_repeated(call) and { 'repeated' } or refused end
  local answer = table.concat(answers) .. (keyed and keyed.met() or '')
  -- More than this call adds.
  if keyed then uniques().forget(2 * packed.number) end
  if not has_new and not (keyed and keyed.has_replaced) and not beside then
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
  if beside then beside.write() end
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
