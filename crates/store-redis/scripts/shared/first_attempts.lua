-- Jobs in a short form that complete in their first attempt, as most do. How their record begins tells state, fence and lease
-- at once, and their ids are gathered by lease. They are told of all together.
-- Needs: keys, clock, records, batch, blocks, tell, gates, places, uniques.
local first_attempts = (function()
  local done_plain, now_text = char(FORM.done) .. clock.now8, clock.now_text
  -- Lists of its own, and counted: to search for the length of a list costs more than to add to it.
  local jobs, ends, written = {}, {}, 0
  local by_lease, is_kept, begin, ids, number = {}, true, nil, nil, 0
  -- What the records become whose begin is known, and whether their jobs have a unique key, and one that they take turns by.
  -- Of those, whether their keys count them, and whether they must be known.
  local done, is_unique, is_gated, is_counted, is_told = nil, false, false, false, false
  -- How many jobs of a key that they take turns by there are; the unique keys that are held until the end, and who had them.
  local gated, uncounted, digests, owners = {}, 0, {}, {}
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

  -- Whether a form is that of a first attempt. Notes what follows of it.
  local function is_first(form)
    if form == FORM.first or form == FORM.begun then
      done, is_unique, is_gated, is_told = done_plain, false, false, false
      return true
    elseif form < FORM.brief or form > FORM.brief_end or form % 8 ~= STATE.running % 8 then
      return false
    end
    local sort = math.floor((form - FORM.brief) / FORM.brief_sort) % 3
    is_unique, is_gated, is_counted = sort > 0, sort ~= 1, form < FORM.brief + FORM.brief_uncounted
    is_told = is_unique or is_gated and (is_counted or gates().has_closed())
    done = char(FORM.brief + FORM.brief_sort * sort + STATE.completed % 8) .. clock.now8
    return true
  end

  -- Notes the keys of a job, which its content ends with.
  local function note_keys(id, record)
    local last = FIRST.block_end + read('>I4', record, FIRST.length)
    if is_unique then
      last = last - WIDTH.unique
      if byte(record, last + UNIQUE.lifetime) == byte('e') then
        owners[#owners + 1], digests[#digests + 1] = id, sub(record, last + UNIQUE.digest, last + UNIQUE.digest_end)
      end
    end
    if is_gated and (is_counted or gates().has_closed()) then
      local key = sub(record, last - byte(record, last), last - 1)
      gated[key] = (gated[key] or 0) + (is_counted and 1 or 0)
    end
  end

  -- Whether a record is that of a job without keys in its first attempt, which has this nonce. Keys of others are told of when
  -- all have ended: too late for what follows them.
  local function is_one(record, nonce)
    local form = byte(record)
    return (form == FORM.first or form == FORM.begun) and find(record, nonce, FIRST.nonce, true) == FIRST.nonce
  end

  -- Completes a job if it is one of those and has this nonce; false if not.
  local function complete(id, record, nonce, output)
    if not (begin and find(record, begin, 1, true) == 1) then
      if not is_first(byte(record)) or find(record, nonce, FIRST.nonce, true) ~= FIRST.nonce then
        begin = nil
        return false
      end
      begin = sub(record, 1, FIRST.lease_end)
      ids = ids_of(sub(begin, FIRST.lease))
      number = #ids
    end
    number = number + 1
    ids[number] = id
    if is_gated and not is_counted then uncounted = uncounted + 1 end
    if is_told then note_keys(id, record) end
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
      if #owners > 0 then uniques().ended(owners, digests) end
      if uncounted > 0 then gates().ended_uncounted(uncounted) end
      for key, counted in pairs(gated) do
        if counted > 0 then
          gates().ended(key, counted)
        else
          gates().ended_uncounted(0, key)
        end
      end
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
