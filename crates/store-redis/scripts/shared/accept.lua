-- The one way into a queue: writes new jobs, whatever brought them, a call, a transfer from another queue or an attempt that
-- they follow. Who may bring them, and whether they are new, is the caller's to know.
-- Needs: keys, clock, batch, kinds, blocks, tell, packed, uniques, conflicts, gates.
local accept = (function()
  -- A table that has all its fields from the beginning does not grow. `conflicts` is there once a job has a unique key,
  -- `is_gated` is set once one is stored that has a key which it takes turns by. `moved` is what a script has done to jobs that
  -- were there, if it moves any (conflicts.lua).
  local a = {
    begin = false, job = false, run = false, write = false, number = false, conflicts = false, is_gated = false, moved = nil,
  }
  local of, add = batch.of, batch.add
  -- A list of its own: moves may write to the same key.
  local jobs, bodies, expiring, number = {}, of('HSET', KEY.bodies), of('ZADD', KEY.expiring), 0
  batch.give('HSET', KEY.jobs, jobs)
  -- How many jobs begin in which state: mostly all in one.
  local entered = {}
  -- The instant of acceptance; the seq of the first job and of the newest, and how many places the first one has passed.
  local accepted, accepted8, first_seq, last_seq, passed
  -- The block that is being filled: its number, how many ids it has, those that are new; and all that were.
  local block, block4, filled, ids, in_block, opened = 0, nil, MAX.block, nil, 0, {}
  -- What the newest head says, and what is answered for its jobs.
  local head_before, state, said, start, middle, orders, score, due, due8, expires_at
  -- What happens if another job holds the unique key (CONFLICT), and the key that jobs take turns by; nil for jobs without one.
  -- What members in an order have after the id.
  local conflict, key, suffix
  -- Unique keys that are handed in, by the places of their jobs, and whether each is free and stands there once.
  local digests, is_once
  local takes = {}

  local function open_block(number)
    block, block4, ids, in_block = number, pack('>I4', number), {}, 0
    opened[#opened + 1] = { number = number, ids = ids }
  end

  -- Begins where `seq` and `block` of META say, nil if they are not there: at an instant, from a seq on if that is later,
  -- the first job so many places behind it.
  function a.begin(seq, current, at, from_seq, places_passed)
    accepted, accepted8, passed = at, clock.instant(at), places_passed
    first_seq = math.max((tonumber(seq) or 0) + 1 - passed, from_seq)
    if current then
      open_block(tonumber(current))
      filled = redis.call('STRLEN', keys.block(current)) / WIDTH.id
    end
  end

  -- Whether the line of a kind takes jobs that are ready now: those that come behind its last one.
  local function line_takes(kind)
    if takes[kind] == nil then
      local last = redis.call('LINDEX', keys.line(kind), -1)
      local due, seq = 0, 0
      if last then
        due, seq = read('>I8', last), read('>I8', last, TURN.seq)
      end
      -- Also where jobs stand already: a list that was lost is made again.
      kinds.list(kind)
      takes[kind] = due < accepted or (due == accepted and seq < first_seq + passed)
    end
    return takes[kind]
  end

  local function read_head(head)
    local form, micros = sub(head, HEAD.due, HEAD.due_end), read('>I8', head, HEAD.due_micros)
    local kind_end = HEAD.kind_length_end + byte(head, HEAD.kind_length)
    local kind, priority = sub(head, HEAD.kind, kind_end), read('>h', head, HEAD.priority)
    due = accepted
    if form == 'a' then
      due = accepted + micros
    elseif form == 't' then
      due = math.max(accepted, micros)
    end
    due8, state, said, expires_at = clock.instant(due), STATE.ready, 'r', nil
    if form == 'h' then
      state, said = STATE.blocked, 'h'
    elseif due > accepted then
      state, said = STATE.scheduled, 's'
    end
    if sub(head, HEAD.expires, HEAD.expires_end) == 'e' then
      expires_at = accepted + read('>I8', head, HEAD.expires_micros)
    end
    local expiry8 = expires_at and clock.instant(expires_at)
    key, conflict, suffix = nil, nil, ''
    if #head > kind_end then
      key, conflict = packed.keys_of(head)
    end
    if (key or conflict) and state == STATE.ready and not expires_at then
      local sort = not conflict and 0 or key and 2 or 1
      start = char(FORM.brief + FORM.brief_sort * sort + STATE.ready % 8) .. due8
      middle = sub(head, HEAD.priority, HEAD.priority_end) .. sub(head, HEAD.payload, HEAD.length_end)
    elseif key or conflict or state == STATE.blocked then
      local flags = FLAGS.none + (conflict and FLAGS.key or 0) + (key and FLAGS.gate or 0)
      start = char(state + (key and FORM.gated_offset or conflict and FORM.keyed_offset or 0), flags) .. BYTES.unclaimed .. due8
      middle = sub(head, HEAD.priority, HEAD.priority_end) .. (expiry8 or BYTES.zero8) .. accepted8 .. BYTES.zero8
        .. sub(head, HEAD.payload, HEAD.length_end)
    else
      start = char(FORM.short + (state == STATE.ready and 1 or 4) + (expires_at and 2 or 0)) .. due8
      middle = sub(head, HEAD.priority, HEAD.priority_end) .. (state == STATE.ready and '' or accepted8)
        .. (expiry8 or '') .. sub(head, HEAD.payload, HEAD.length_end)
    end
    if state == STATE.blocked then
      -- It stands in no order: what is gathered here is not written.
      orders, score = {}, nil
    elseif state == STATE.scheduled then
      orders, score = of('ZADD', KEY.scheduled), string.format('%.0f', due)
    elseif key then
      orders, score, suffix = of('ZADD', gates().order(key)), string.format('%d', -priority), kind
    elseif priority == 0 and line_takes(kind) then
      orders, score = of('RPUSH', keys.line(kind)), nil
    else
      orders, score = kinds.zset(kind), string.format('%d', -priority)
    end
  end

  -- Reads who holds the unique keys that are handed in, once.
  local function look_up_keys()
    if a.conflicts then return end
    local all
    a.conflicts = conflicts(a.moved, jobs)
    all, digests = packed.digests()
    is_once = uniques().look_up(all, not a.moved and not packed.has_repeats)
  end

  -- Takes the unique key of a job that was handed in at this place. Answers what `conflicts` says if another job holds it.
  local function take_key(id, head, content, body, place)
    look_up_keys()
    local u, digest = uniques(), digests[place]
    local holder = not is_once and u.holder_of(digest)
    if holder then return a.conflicts.meet(id, head, content, body, conflict, due, digest, holder) end
    u.take(id, digest, content, #content - WIDTH.unique, accepted, is_once)
  end

  -- Accepts a job that was handed in at this place, so many places behind the first seq or behind the one before. Answers 'r' if
  -- it is ready, 's' if it is scheduled, 'h' if it is held, and what `conflicts` says if another job holds its unique key.
  function a.job(id, head, content, body, place, offset)
    if head ~= head_before then
      read_head(head)
      head_before = head
    end
    local met = conflict and take_key(id, head, content, body, place)
    if met then return met end
    if filled == MAX.block then
      open_block(block + 1)
      filled = 0
    end
    filled, in_block = filled + 1, in_block + 1
    ids[in_block] = id
    last_seq = first_seq + (offset or number)
    if in_block == 1 then opened[#opened].seq = last_seq end
    local seq8 = pack('>I8', last_seq)
    number = number + 1
    jobs[2 * number - 1] = id
    jobs[2 * number] = start .. seq8 .. middle .. block4 .. content
    local at = #orders
    if score then
      orders[at + 1], at = score, at + 1
    end
    orders[at + 1] = state == STATE.ready and due8 .. seq8 .. id .. suffix or seq8 .. id
    entered[state] = (entered[state] or 0) + 1
    if key then
      a.is_gated = true
      if state == STATE.ready then
        gates().came(key)
        gates().count(1)
      end
    end
    if body and a.conflicts then
      a.conflicts.keep(id, body)
    elseif body then
      add(bodies, id, body)
    end
    if expires_at then add(expiring, string.format('%.0f', expires_at), id) end
    return said
  end

  -- As `job`, for a run of them in a row (packed.run), whose ids are new and stand there once, after so many others. Answers
  -- nothing if they have to be accepted one by one.
  function a.run(head, count, id_at, content_at, place)
    head_before = head
    read_head(head)
    if conflict then look_up_keys() end
    if expires_at or conflict and not is_once then return nil end
    if conflict then uniques().take_run(count, id_at, content_at, digests, place, accepted, packed.has_timed) end
    local argv, at, n, is_ready, begin, left = ARGV, #orders, 2 * number, state == STATE.ready, '', count
    if is_ready then begin = due8 end
    while left > 0 do
      if filled == MAX.block then
        open_block(block + 1)
        filled = 0
      end
      local some, seq, block_ids, tail = math.min(left, MAX.block - filled), first_seq + number - 1, ids, middle .. block4
      if in_block == 0 then opened[#opened].seq = seq + 1 end
      for i = 1, some do
        local id, seq8 = argv[id_at + i], pack('>I8', seq + i)
        block_ids[in_block + i] = id
        jobs[n + 1], jobs[n + 2], n = id, start .. seq8 .. tail .. argv[content_at + i], n + 2
        if score then
          orders[at + 1], at = score, at + 1
        end
        at = at + 1
        orders[at] = begin .. seq8 .. id .. suffix
      end
      filled, in_block, number, last_seq = filled + some, in_block + some, number + some, seq + some
      id_at, content_at, left = id_at + some, content_at + some, left - some
    end
    entered[state] = (entered[state] or 0) + count
    if key then
      a.is_gated = true
      if is_ready then
        gates().came(key)
        gates().count(count)
      end
    end
    return said
  end

  -- Writes what was accepted. The caller has written something before that a server without memory refuses.
  function a.write(current)
    if a.conflicts then a.conflicts.write() end
    for each, jobs_entered in pairs(entered) do
      tell(nil, each, byte('-'), jobs_entered)
    end
    if last_seq then redis.call('HSET', KEY.meta, 'seq', string.format('%.0f', last_seq), 'block', block) end
    batch.write()
    for _, each in ipairs(opened) do
      if #each.ids > 0 then
        redis.call('APPEND', keys.block(each.number), table.concat(each.ids))
        if redis.call('HINCRBY', KEY.live, each.number, #each.ids) == #each.ids then
          redis.call('ZADD', KEY.blocks, 'NX', each.seq, each.number)
        end
      end
    end
    -- The block that was being filled may have lost all of its jobs meanwhile.
    if current and opened[2] and tonumber(redis.call('HGET', KEY.live, current) or 0) <= 0 then
      blocks.drop(current)
    end
  end

  function a.number()
    return number
  end

  return a
end)()
