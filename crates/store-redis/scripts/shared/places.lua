-- Where a job is found: by its turn, its due instant, its lease, its end or its expiry; and what is kept beside its record.
-- Only moves and accept change any of it.
-- Records are in the long form, or as those with a key are stored.
-- Needs: keys, clock, records, batch, kinds, blocks, gates.
local places = (function()
  local of, add = batch.of, batch.add
  local ENDED = {
    [STATE.completed] = KEY.completed,
    [STATE.dead] = KEY.dead,
    [STATE.cancelled] = KEY.cancelled,
  }

  local function may_expire(record)
    return sub(record, RECORD.expiry, RECORD.expiry_end) ~= BYTES.zero8
      and sub(record, RECORD.attempt, RECORD.attempt_end) == BYTES.zero4
  end

  -- Puts a job that is ready into the order of its kind, or behind the gate of its key.
  local function enter_ready(id, record)
    if byte(record, RECORD.flags) >= FLAGS.gated then return gates().enter(id, record) end
    add(kinds.zset(records.kind_of(record)), 0 - read('>h', record, RECORD.priority),
      sub(record, RECORD.due, RECORD.seq_end) .. id)
  end

  -- Puts a job that is ready, scheduled, or ends now into the orders of its state. What is blocked stands in none, and nothing
  -- becomes blocked.
  local function enter(id, record, state)
    if state == STATE.ready then
      enter_ready(id, record)
    elseif state == STATE.scheduled then
      add(of('ZADD', KEY.scheduled), (read('>I8', record, RECORD.due)), sub(record, RECORD.seq, RECORD.seq_end) .. id)
    else
      add(of('ZADD', ENDED[state]), clock.now_text, sub(record, RECORD.seq, RECORD.seq_end) .. id)
    end
    if state < STATE.running and may_expire(record) then
      add(of('ZADD', KEY.expiring), (read('>I8', record, RECORD.expiry)), id)
    end
  end

  -- Takes a job out of the orders of its state.
  local function leave(id, record, state)
    if state == STATE.running then
      local lease = records.lease_of(record)
      add(of('SREM', keys.of_lease('running:', lease)), id)
      if byte(record, RECORD.flags) % 2 == 1 then add(of('SREM', keys.of_lease('stopping:', lease)), id) end
    elseif state == STATE.ready and byte(record, RECORD.flags) >= FLAGS.gated then
      gates().leave(id, record)
    elseif state == STATE.ready then
      add(of('ZREM', keys.ready(records.kind_of(record))), sub(record, RECORD.due, RECORD.seq_end) .. id)
    elseif state == STATE.scheduled then
      add(of('ZREM', KEY.scheduled), sub(record, RECORD.seq, RECORD.seq_end) .. id)
    elseif state ~= STATE.blocked then
      add(of('ZREM', ENDED[state]), sub(record, RECORD.seq, RECORD.seq_end) .. id)
    end
    if state < STATE.running and may_expire(record) then
      add(of('ZREM', KEY.expiring), id)
    end
  end

  -- Whether any job of the queue has an output, or progress: mostly none has, and nothing must be removed. Asked once, and
  -- before the first write, so that a key of another type ends the script there.
  local outputs, progress

  local function look_beside()
    if not outputs then
      outputs, progress = redis.call('HLEN', KEY.outputs), redis.call('HLEN', KEY.progress)
    end
  end

  -- Removes all that is kept of jobs that complete in their first attempt with nothing apart, but for their blocks. Ids may
  -- be added to the list until all is written.
  local function forget_first(ids)
    look_beside()
    batch.give('HDEL', KEY.jobs, ids)
    if outputs > 0 then batch.give('HDEL', KEY.outputs, ids) end
    if progress > 0 then batch.give('HDEL', KEY.progress, ids) end
  end

  -- Removes all that is kept of a job, but for its places. The attempt that runs or completed has no record of its own
  -- unless it was reaped before; those before it have, as far as they are kept. Answers how many records of attempts that
  -- may be.
  local function forget(id, record, state)
    look_beside()
    add(of('HDEL', KEY.jobs), id)
    if outputs > 0 then add(of('HDEL', KEY.outputs), id) end
    if progress > 0 then add(of('HDEL', KEY.progress), id) end
    if read('>I4', record, RECORD.payload) > MAX.inline then
      add(of('HDEL', KEY.bodies), id)
    end
    local last = read('>I8', record, RECORD.fence)
    if state == STATE.running or state == STATE.completed and byte(record, RECORD.flags) % FLAGS.key ~= FLAGS.reaped % FLAGS.key then
      last = last - 1
    end
    local attempts = math.min(last, MAX.attempts)
    if attempts > 0 then
      local values = of('HDEL', KEY.attempts)
      for number = last - attempts + 1, last do
        add(values, id .. pack('>I8', number))
      end
    end
    blocks.release(sub(record, RECORD.block, RECORD.block_end))
    return attempts
  end

  return {
    ENDED = ENDED,
    may_expire = may_expire,
    enter_ready = enter_ready,
    enter = enter,
    leave = leave,
    forget_first = forget_first,
    forget = forget,
  }
end)()
