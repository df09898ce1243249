-- Plain jobs that complete in their first attempt, as most do. How their record begins tells state, fence and lease at
-- once, and their ids are gathered by lease. They are told of all together.
-- Needs: keys, clock, records, batch, blocks, tell, places.
local first_attempts = (function()
  local done, now_text = char(FORM.done) .. clock.now8, clock.now_text
  -- Lists of its own, and counted: to search for the length of a list costs more than to add to it.
  local jobs, ends, written = {}, {}, 0
  local by_lease, is_kept, begin, ids, number = {}, true, nil, nil, 0
  batch.give('HSET', KEY.jobs, jobs)
  batch.give('ZADD', KEY.completed, ends)

  local function ids_of(lease)
    if not by_lease[lease] then
      by_lease[lease] = {}
      batch.give('SREM', keys.of_lease('running:', lease), by_lease[lease])
      if not is_kept then places.forget_first(by_lease[lease]) end
    end
    return by_lease[lease]
  end

  -- Whether a record is that of such a job, in an attempt that has this nonce.
  local function is_one(record, nonce)
    local form = byte(record)
    return (form == FORM.first or form == FORM.begun) and find(record, nonce, FIRST.nonce, true) == FIRST.nonce
  end

  -- Completes a job if it is one of those and has this nonce; false if not.
  local function complete(id, record, nonce, output)
    if not (begin and find(record, begin, 1, true) == 1) then
      if not is_one(record, nonce) then
        begin = nil
        return false
      end
      begin = sub(record, 1, FIRST.lease_end)
      ids = ids_of(sub(begin, FIRST.lease))
      number = #ids
    end
    number = number + 1
    ids[number] = id
    if not is_kept then
      blocks.release(sub(record, FIRST.block, FIRST.block_end))
      return true
    end
    jobs[written + 1], jobs[written + 2] = id, done .. sub(record, FIRST.nonce)
    ends[written + 1], ends[written + 2] = now_text, sub(record, FIRST.seq, FIRST.seq_end) .. id
    written = written + 2
    if output then batch.add(batch.of('HSET', KEY.outputs), id, output) end
    return true
  end

  -- Tells of all of them. Answers how many they are.
  local function tell_all()
    local total = 0
    for _, each in pairs(by_lease) do
      total = total + #each
    end
    if total > 0 then
      tell(STATE.running, STATE.completed, byte('-'), total)
      if not is_kept then tell(STATE.completed, nil, byte('-'), total) end
    end
    return total
  end

  return {
    is_one = is_one,
    complete = complete,
    tell_all = tell_all,
    -- Begins; whether the queue keeps jobs that have completed.
    begin = function(keeps) is_kept = keeps end,
    -- Begins a run of jobs that have a nonce of their own.
    begin_run = function() begin = nil end,
  }
end)()
