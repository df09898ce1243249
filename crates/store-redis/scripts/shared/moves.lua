-- The one way from state to state. Whatever changes the state of a job, or removes one, passes here, told the job, from
-- where to where and why; the queue is the script's. Here its record, its places, its attempts and the counts are kept, and
-- here is the place for what else is to follow a change. Who is to be woken the program tells from what the script answers.
-- Needs: keys, clock, records, batch, blocks, tell, gates, places, uniques.
local moves = (function()
  local of, add, now8, ENDED = batch.of, batch.add, clock.now8, places.ENDED

  -- Told of one job that has a long record. A plain job has nothing that these places are about, so that the short ways
  -- (`start`, first_attempts.lua) only `tell`.
  local function tell_one(id, record, from, to, reason)
    tell(from, to, reason, 1)
    local flags = byte(record, RECORD.flags)
    if flags % FLAGS.gate >= FLAGS.key then uniques().moved(id, record, to) end
    if flags >= FLAGS.gated then gates().moved(record, from, to) end
    -- Links: tell the jobs that wait for this one here, when it has ended or is removed.
  end

  -- What the stored record of a job begins with that becomes like `start` and had these flags: that it has keys stays. Mostly
  -- the same for all jobs of a call.
  local start_before, flags_before, begin

  local function begin_of(start, flags)
    if flags < FLAGS.keyed then return start end
    if start ~= start_before or flags ~= flags_before then
      start_before, flags_before = start, flags
      begin = char(byte(start) + (flags >= FLAGS.gated and FORM.gated_offset or FORM.keyed_offset),
        byte(start, RECORD.flags) + (flags - FLAGS.none) % FLAGS.uncount - flags % FLAGS.key) .. sub(start, RECORD.reason)
    end
    return begin
  end

  -- Changes a job: `start` is what its record begins with from now on (state, flags, reason, counters), `due8` another due
  -- instant than it had. Its record is in the long form or, if it has a key, as it is stored. Answers that which is stored then.
  local function change(id, record, start, due8)
    local from, to, becomes = records.state_of(record), byte(start), nil
    local first = begin_of(start, byte(record, RECORD.flags))
    if ENDED[to] then
      becomes = first .. sub(record, RECORD.fence, RECORD.enqueued_end) .. now8 .. sub(record, RECORD.payload)
    else
      local expiry8 = sub(record, RECORD.expiry, RECORD.expiry_end)
      if ENDED[from] then
        -- It begins anew: what it came to is gone, and that it was to begin in time does not count again.
        add(of('HDEL', KEY.outputs), id)
        add(of('HDEL', KEY.progress), id)
        expiry8 = BYTES.zero8
      end
      becomes = first .. sub(record, RECORD.fence, RECORD.fence_end) .. (due8 or sub(record, RECORD.due, RECORD.due_end))
        .. sub(record, RECORD.seq, RECORD.priority_end) .. expiry8 .. sub(record, RECORD.enqueued, RECORD.enqueued_end)
        .. BYTES.zero8 .. sub(record, RECORD.payload)
    end
    places.leave(id, record, from)
    places.enter(id, becomes, to)
    add(of('HSET', KEY.jobs), id, becomes)
    tell_one(id, record, from, to, byte(start, RECORD.reason))
    return becomes
  end

  -- Removes a job and all that is kept of it; `to` and `reason` if it comes to an end by that. Its record is as in `change`.
  -- Answers how many records of attempts that may be.
  local function remove(id, record, to, reason)
    local from = records.state_of(record)
    places.leave(id, record, from)
    tell_one(id, record, from, to, reason)
    if to then tell(to, nil, reason, 1) end
    return places.forget(id, record, from)
  end

  -- A scheduled job becomes ready. Its place among the scheduled ones the caller takes away; `stored` is its record in
  -- whatever form it has, of which one more in the first byte is ready.
  local function promote(id, record, stored)
    add(of('HSET', KEY.jobs), id, char(byte(stored) + 1) .. sub(stored, RECORD.flags))
    places.enter_ready(id, record)
    tell_one(id, record, STATE.scheduled, STATE.ready, byte(record, RECORD.reason))
  end

  -- Ready jobs start under a lease: their ids, and for each its id and the record that it becomes; beside them the records
  -- that those with a unique key had, by id, and how many have which key that they take turns by, if there are any. Their
  -- turns the claim takes away.
  local function start(lease, ids, jobs, keyed, gated)
    batch.give('HSET', KEY.jobs, jobs)
    batch.give('SADD', keys.of_lease('running:', lease), ids)
    tell(STATE.ready, STATE.running, byte('-'), #ids)
    if keyed then
      for id, record in pairs(keyed) do
        uniques().moved(id, record, STATE.running)
      end
    end
    if gated then
      for key, number in pairs(gated) do
        gates().started(key, number)
      end
    end
  end

  -- Keeps the record of the attempt that ends, unless it completes; `ending` is how it ended (row/attempt.rs).
  local function keep_attempt(id, record, ending)
    local number, claim = sub(record, RECORD.fence, RECORD.fence_end), records.content_end(record)
    add(of('HSET', KEY.attempts), id .. number,
      sub(record, RECORD.attempt, RECORD.attempt_end) .. now8 .. sub(record, claim + CLAIM.claimed) .. ending)
    local oldest = read('>I8', number) - MAX.attempts
    if oldest > 0 then
      add(of('HDEL', KEY.attempts), id .. pack('>I8', oldest))
    end
  end

  return { change = change, remove = remove, promote = promote, start = start, keep_attempt = keep_attempt }
end)()
