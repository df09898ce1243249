-- Takes ready jobs from behind gates, of the kinds that a claim asks for: `choose` finds those that one gate may give, and
-- `take` takes them when their records are read, which is done for many gates at once. Made only where a queue has keys.
-- Needs: keys, records, lines, batch, places, room, starting, gates, aged.
local function behind(kinds)
  local r, _, _, _, start_other, start_brief = room(), starting()
  local BRIEF, BRIEF_UNIQUE = FORM.brief + STATE.ready % 8, FORM.brief + 2 * FORM.brief_sort + STATE.ready % 8

  -- Takes a job, if it fits. Answers why not.
  local function start(id, record)
    local form, payload, becomes = byte(record), nil, nil
    local is_brief = form == BRIEF or form == BRIEF_UNIQUE
    if is_brief then
      payload, becomes = start_brief(record, form)
    else
      payload, becomes = start_other(record)
    end
    local sum, n = r.bytes + payload, r.number
    local why = r.is_over and 1 or (payload > MAX.inline or sum > r.bytes_max) and r.refusal(payload, id, sum, n)
    if why then return why end
    r.bytes, r.number = sum, n + 1
    r.ids[n + 1], r.jobs[2 * n + 1], r.jobs[2 * n + 2] = id, id, becomes
    if form == BRIEF then return nil end
    if is_brief then record = records.expand(record) end
    if places.may_expire(record) then batch.add(batch.of('ZREM', KEY.expiring), id) end
    if byte(record, RECORD.flags) % FLAGS.gate >= FLAGS.key then
      r.keyed = r.keyed or {}
      r.keyed[id] = record
    end
    return nil
  end

  -- The record of a job at a member, false if it is not known here, and whether the job stands there. The long form of a ready
  -- job with a key has everything where others have it, but for its first byte.
  local function find_record(stored, member)
    local form = byte(stored)
    if (form == BRIEF or form == BRIEF_UNIQUE) and #stored > PLAIN.content then
      return stored, find(stored, sub(member, TURN.due, TURN.seq_end), PLAIN.due, true) == PLAIN.due
    end
    if byte(stored) == STATE.ready + FORM.gated_offset and #stored > RECORD.content then
      return stored, find(stored, sub(member, TURN.due, TURN.seq_end), RECORD.due, true) == RECORD.due
    end
    local record = records.expand(stored)
    return record, record and lines.stands_at(record, member)
  end

  -- Members that this claim has taken already, which stand there until all is written.
  local function taken_of(gate)
    local taken = {}
    for _, member in ipairs(gate.removed) do
      taken[member] = true
    end
    return taken
  end

  local b = {}

  -- Notes in `chosen` the first members of these kinds, at most so many, and in `total` how many stand there, false if there may
  -- be more. Answers how many were chosen, and how many were looked at. One more is read than may be taken, which tells whether any is left;
  -- those of other kinds are passed, a bounded number of them.
  function b.choose(gate, most)
    if aged_made then return aged_made.choose(gate, most, kinds, taken_of(gate)) end
    local passed = #gate.removed
    local first = passed + most + 1
    local members = redis.call('ZRANGE', gate.order, '0', text_of(first - 1))
    local number, at, looked, chosen = #members, 1, 0, nil
    local n, has_all = 0, number < first
    if passed == 0 then
      -- Mostly all of them are of these kinds.
      while n < most and n < number and kinds[sub(members[n + 1], BEHIND.kind)] do
        n = n + 1
      end
      at, looked, chosen = n + 1, n, members
      if n == most and n < number then members[n + 1] = nil end
    else
      chosen = {}
    end
    if n < most and at <= number then
      local taken = passed > 0 and taken_of(gate) or {}
      local some = {}
      for i = 1, n do
        some[i] = chosen[i]
      end
      if not has_all then
        local more = redis.call('ZRANGE', gate.order, text_of(first), text_of(passed + most + GATES.passed - 1))
        has_all = #more < GATES.passed - 1
        for i = 1, #more do
          members[number + i] = more[i]
        end
        number = number + #more
      end
      while at <= number and n < most do
        local member = members[at]
        at = at + 1
        if not taken[member] then
          looked = looked + 1
          if kinds[sub(member, BEHIND.kind)] then
            n = n + 1
            some[n] = member
          end
        end
      end
      chosen = some
    end
    gate.chosen, gate.total = chosen, has_all and number
    return n, looked
  end

  -- Takes the jobs that were chosen: their ids and what is stored under them follow a place. Answers how many, and why no more
  -- if the claim ends by that.
  function b.take(gate, ids, found, at)
    local removed, chosen, taken = gate.removed, gate.chosen, 0
    for i = 1, #chosen do
      local stored, record, stands = found[at + i], nil, nil
      if stored then record, stands = find_record(stored, chosen[i]) end
      if stands then
        local why = start(ids[at + i], record)
        if why then return taken, why end
        taken = taken + 1
      end
      -- A form that is not known here is passed over, and keeps its place. What stands elsewhere, or is gone, has none here.
      if record or not stored then
        removed[#removed + 1] = chosen[i]
        if not stands then gates().count(-1) end
      end
    end
    return taken, nil
  end

  return b
end
