-- Takes ready jobs from behind one gate, of the kinds that a claim asks for. Made only where a queue has keys.
-- Needs: keys, records, lines, batch, places, room, starting, gates, aged.
local function behind(kinds)
  local r, _, _, _, start_other = room(), starting()

  -- Takes a job, if it fits. Answers why not.
  local function start(id, record, is_unique)
    local payload, becomes = start_other(record)
    local sum, n = r.bytes + payload, r.number
    local why = r.is_over and 1 or r.refusal(payload, id, sum, n)
    if why then return why end
    r.bytes, r.number = sum, n + 1
    r.ids[n + 1], r.jobs[2 * n + 1], r.jobs[2 * n + 2] = id, id, becomes
    if places.may_expire(record) then batch.add(batch.of('ZREM', KEY.expiring), id) end
    if is_unique then
      r.keyed = r.keyed or {}
      r.keyed[id] = record
    end
    return nil
  end

  -- The first members of these kinds, at most so many, and how many were looked at. What is taken already stands there until
  -- all is written.
  local function choose(gate, order, most)
    if aged_made then return aged_made.choose(gate, order, most, kinds) end
    local looks = most + GATES.passed
    local members, chosen, looked = redis.call('ZRANGE', order, 0, gate.taken + looks - 1), {}, 0
    for i = 1, #members do
      local member = members[i]
      if not gate.gone[member] then
        if looked == looks then break end
        looked = looked + 1
        if #chosen < most and kinds[sub(member, BEHIND.kind)] then chosen[#chosen + 1] = member end
      end
    end
    return chosen, looked, looked < looks
  end

  -- Takes jobs at these members. Answers how many, and why no more.
  local function take(gate, order, chosen)
    local ids, taken = {}, 0
    for i, member in ipairs(chosen) do
      ids[i] = sub(member, TURN.id, TURN.id_end)
    end
    local found = redis.call('HMGET', KEY.jobs, unpack(ids))
    for i, member in ipairs(chosen) do
      local record = found[i] and records.expand(found[i])
      local stands = record and lines.stands_at(record, member)
      if stands then
        local why = start(ids[i], record, byte(record, RECORD.flags) % FLAGS.gate >= FLAGS.key)
        if why then return taken, why end
        taken = taken + 1
      end
      -- A form that is not known here is passed over, and keeps its place. What stands elsewhere, or is gone, has none here.
      if stands or record or not found[i] then
        gate.gone[member], gate.taken = true, gate.taken + 1
        batch.add(batch.of('ZREM', order), member)
        if not stands then gates().count(-1) end
      end
    end
    return taken, nil
  end

  -- Takes jobs from behind a gate, at most so many. Answers how many, whether none is left there, how many were looked at,
  -- and why no more are taken, if the claim ends by that.
  return function(gate, most)
    local order = gates().order(gate.key)
    if most == 0 then return 0, redis.call('ZCARD', order) <= gate.taken, 1, nil end
    local chosen, looked, has_all = choose(gate, order, most)
    if #chosen == 0 then return 0, has_all and looked == 0, looked, nil end
    local before = gate.taken
    local taken, why = take(gate, order, chosen)
    return taken, has_all and looked == gate.taken - before, looked, why
  end
end
