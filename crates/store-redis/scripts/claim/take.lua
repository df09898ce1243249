-- Takes jobs in the order of their turns: reads their records, and makes of each what it is under this claim.
-- Made only where there are any, for a claim of so many, of which one script takes so many. What it took it adds to the room;
-- it answers what becomes of the sources, and `ended`, why it took no more: 1 a payload did not fit, 2 so many stale or
-- strange turns were passed that more jobs may follow, 3 one script hands out no more, else 0.
-- Needs: keys, records, lines, batch, places, sources, merge, parked, room, starting.
local function take(limit, most_at_once)
  -- What one script may look at.
  local LOOKED_AT_MAX = 1000
  local expand, stands_at, label, first, start_large, start_other, start_brief = records.expand, lines.stands_at, starting()
  local r = room()
  -- How many turns of each source were passed, and how many of them were stale; how many strange jobs were passed.
  local t = { ended = 0, passed = {}, stale = {}, strange = 0 }
  local jobs, ids, n, bytes, bytes_max, refusal = r.jobs, r.ids, r.number, r.bytes, r.bytes_max, r.refusal
  local looked_at, id_before, set_aside = 0, nil, nil

  -- Goes through the jobs at these turns; answers why the claim ends, if it does. What changes with each job is local.
  local function look(turns, origins, found_ids, found)
    local taken, sum, before, why, all_passed = n, bytes, id_before, nil, t.passed
    local from, passed, is_exact = nil, nil, nil
    for i = 1, #turns do
      local stored, id = found[i], found_ids[i]
      local form, record, payload, becomes = stored and byte(stored) or 0, stored, nil, nil
      if not from or origins and origins[i] ~= from then
        if from then all_passed[from] = passed end
        from = origins and origins[i] or 1
        passed, is_exact = all_passed[from] or 0, sources.is_exact(from)
      end
      -- One that stands in a line and in a zset at the same turn is met twice in a row.
      if stored and id ~= before then
        if form == FORM.plain and #stored > PLAIN.content then
          -- Where nothing is stale, a plain record is that of this turn.
          if is_exact or find(stored, sub(turns[i], TURN.due, TURN.seq_end), PLAIN.due, true) == PLAIN.due then
            payload = read('>I4', stored, PLAIN.payload)
            becomes = payload <= MAX.inline and first .. sub(stored, PLAIN.due) .. label or start_large(stored)
          end
        elseif form == FORM.brief + FORM.brief_sort + STATE.ready % 8 and #stored > PLAIN.content then
          if find(stored, sub(turns[i], TURN.due, TURN.seq_end), PLAIN.due, true) == PLAIN.due then
            payload, becomes = start_brief(stored, form)
          end
        else
          record = expand(stored)
          if not record then
            set_aside = set_aside or parked()
            set_aside.park(stored, turns[i], from)
            t.strange = t.strange + 1
          elseif stands_at(record, turns[i]) then
            payload, becomes = start_other(record)
          end
        end
      end
      if becomes then
        sum = sum + payload
        why = (payload > MAX.inline or sum > bytes_max) and refusal(payload, id, sum, taken)
        if why then break end
        before, taken = id, taken + 1
        if form >= FORM.brief then
          -- A key that is held until the start; it expires at no time.
          if byte(stored, #stored - WIDTH.unique + UNIQUE.lifetime) == byte('s') then
            r.keyed = r.keyed or {}
            r.keyed[id] = expand(stored)
          end
        elseif form ~= FORM.plain then
          if places.may_expire(record) then batch.add(batch.of('ZREM', KEY.expiring), id) end
          if form >= FORM.keyed then
            r.keyed = r.keyed or {}
            r.keyed[id] = record
          end
        end
        ids[taken], jobs[2 * taken - 1], jobs[2 * taken] = id, id, becomes
      elseif record or not stored then
        t.stale[from] = (t.stale[from] or 0) + 1
      end
      passed = passed + 1
    end
    all_passed[from], n, bytes, id_before = passed, taken, sum, before
    return why or nil
  end

  local wanted = n + limit
  limit = math.min(limit, most_at_once)
  local has_more, next_turns = true, sources.number > 1 and merge(limit)
  limit = n + limit
  while has_more and n < limit and t.ended == 0 do
    local most, turns, origins = math.min(limit - n, LOOKED_AT_MAX - looked_at), nil, nil
    if next_turns then
      turns, origins, has_more = next_turns(most)
    else
      turns, has_more = sources.next(1, most, false), not sources.is_end[1]
    end
    if #turns == 0 then break end
    local found_ids = {}
    for i = 1, #turns do
      found_ids[i] = sub(turns[i], TURN.id)
    end
    looked_at = looked_at + #turns
    t.ended = look(turns, origins, found_ids, redis.call('HMGET', KEY.jobs, unpack(found_ids))) or 0
    if t.ended == 0 and looked_at >= LOOKED_AT_MAX and n < limit and has_more then t.ended = 2 end
  end
  if t.ended == 0 and n == limit and n < wanted and has_more then t.ended = 3 end
  r.number, r.bytes = n, bytes
  return t
end
