-- Jobs that meet the holder of their unique key: what is answered, and what the holder takes over. Also knows the jobs of the
-- call that are stored, since one of them may be met, or handed in again after another was not stored. `moved` is what the same
-- script has done to jobs that were there: by id the record as it is stored from now on, false where the job is gone; nil if it
-- moves none. `stored_jobs` has the jobs of the call that are stored so far, each its id and then its record. Made only where a
-- job has a key.
-- Needs: keys, records, batch, packed, uniques.
local function conflicts(moved, stored_jobs)
  local of, add = batch.of, batch.add
  local KEEP, DEBOUNCE, BOUNDED = byte('k'), byte('d'), byte('m')
  -- How many jobs were not stored, and whether a holder was replaced.
  local c = { number = 0, has_replaced = false }
  -- By id: records of jobs of the call that are stored, so many values of the list as were looked at, since mostly none is
  -- asked for; payloads that these were handed in with; holders as they are from now on, in the long form; payloads that stand
  -- apart, false where one goes. Then what is answered of holders.
  local entered, entered_number, kept, replaced, bodies, met = {}, 0, {}, {}, {}, {}

  -- A job of the call that is stored has a payload that stands apart.
  function c.keep(id, body)
    kept[id], bodies[id] = body, body
  end

  -- The record of a job of the call as it was stored, if one has this id.
  local function stored_as(id)
    for i = entered_number + 1, #stored_jobs, 2 do
      entered[stored_jobs[i]] = stored_jobs[i + 1]
    end
    entered_number = #stored_jobs
    return entered[id]
  end

  -- The same as what a job was handed in with before: see packed.is_same.
  local function handed_in(record, body)
    return {
      state = byte(record),
      head = string.rep('-', HEAD.payload - 1) .. sub(record, RECORD.payload, RECORD.payload_end),
      content = sub(record, RECORD.content, records.content_end(record)),
      body = body or nil,
    }
  end

  -- A job of the call that is stored, if one has this id: its state, and what it was handed in with.
  function c.entered(id)
    local stored = stored_as(id)
    return stored and handed_in(records.expand(stored), kept[id])
  end

  -- The record of the job that holds a key, nil if it is gone or strange, and its state as a digit, '-' if it is gone. A key
  -- that is held for a time outlives its job: another one under the same id does not hold it.
  local function look_up(id, digest)
    local stored = not replaced[id] and stored_as(id) or moved and moved[id]
    if stored == nil then stored = not replaced[id] and redis.call('HGET', KEY.jobs, id) end
    local record = replaced[id] or stored and records.expand(stored) or nil
    if record and (byte(record, RECORD.flags) % FLAGS.gate < FLAGS.key
      or sub(uniques().of_record(record), UNIQUE.digest, UNIQUE.digest_end) ~= digest) then
      return nil, '-'
    end
    return record, record and char(byte(record)) or stored and records.strange_state(stored) or '-'
  end

  -- When a holder is due from now on: other than before only if it is scheduled and debounced.
  local function due_of(id, record, conflict, due)
    local how = byte(conflict, CONFLICT.how)
    if byte(record) ~= STATE.scheduled or how ~= DEBOUNCE and how ~= BOUNDED then
      return sub(record, RECORD.due, RECORD.due_end)
    end
    if how == BOUNDED then due = math.min(due, read('>I8', record, RECORD.enqueued) + read('>I8', conflict, CONFLICT.wait)) end
    add(of('ZADD', KEY.scheduled), string.format('%.0f', due), sub(record, RECORD.seq, RECORD.seq_end) .. id)
    return clock.instant(due)
  end

  -- The holder says from now on what a job says that is handed in like this; its kind, its keys and its place stay.
  local function replace(id, record, head, content, body, due8)
    local last, key = records.content_end(record), packed.keys_of(head)
    local keys_width = WIDTH.unique + (key and #key + 1 or 0)
    local said = sub(record, RECORD.content, RECORD.block_end + CONTENT.kind_length_end + byte(record, RECORD.content))
      .. sub(content, CONTENT.kind + byte(content), -1 - keys_width)
      .. sub(record, last + 1 - records.keys_width(record), last)
    -- An outcome of an attempt before was about another payload: the job no longer counts as reaped.
    local flags = byte(record, RECORD.flags)
    replaced[id] = char(byte(record), flags - flags % FLAGS.key) .. sub(record, RECORD.reason, RECORD.fence_end) .. due8 .. sub(record, RECORD.seq, RECORD.finished_end)
      .. sub(head, HEAD.payload, HEAD.payload_end) .. pack('>I4', #said) .. sub(record, RECORD.block, RECORD.block_end)
      .. said .. sub(record, last + 1)
    bodies[id], c.has_replaced = body or false, true
  end

  -- The answer for a job whose key of this digest another one holds: 'd' if that stays as it is, 'p' if it is replaced. `body`
  -- is nil also where the payload was written before.
  function c.meet(id, head, content, body, conflict, due, digest, holder)
    local record, state = look_up(holder, digest)
    c.number = c.number + 1
    met[c.number] = holder .. state
    if not record or byte(record) >= STATE.running or byte(conflict, CONFLICT.how) == KEEP then return 'd' end
    if read('>I4', head, HEAD.payload) > MAX.inline then body = body or redis.call('HGET', KEY.bodies, id) end
    replace(holder, record, head, content, body, due_of(holder, record, conflict, due))
    return 'p'
  end

  -- A holder that was replaced, in the long form.
  function c.replaced(id)
    return replaced[id]
  end

  -- What a holder that was replaced says: as `entered`.
  function c.replaced_by(id)
    local record = replaced[id]
    return record and handed_in(record, bodies[id])
  end

  -- Who was met, in order: ids, each with the state.
  function c.met()
    return table.concat(met)
  end

  -- Adds what is to be written, after all that the call stores.
  function c.write()
    local jobs = {}
    for id, record in pairs(replaced) do
      add(jobs, id, records.stored(record))
    end
    batch.give('HSET', KEY.jobs, jobs)
    for id, body in pairs(bodies) do
      if body then
        add(of('HSET', KEY.bodies), id, body)
      else
        add(of('HDEL', KEY.bodies), id)
      end
    end
  end

  return c
end
