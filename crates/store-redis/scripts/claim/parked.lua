-- Ready jobs of a form that this program does not know. A claim that meets one parks its turn, by kind, under the form and
-- with the score that it had, so that it holds up no other job and no claim meets it again; a program that knows the form puts
-- it back before it takes jobs, so that it has lost nothing there. What is cut short is parked for good. `parked` in META
-- counts them. Made only where there is one.
-- Needs: keys, records, lines, batch, kinds, sources.
local function parked()
  local CUT_SHORT = 256
  -- The first and the last of the forms that are known here.
  local KNOWN = {
    { STATE.blocked, STATE.cancelled },
    { FORM.short, FORM.fresh_end },
    { FORM.first, FORM.begun },
    { FORM.keyed, FORM.keyed_end },
    { FORM.gated, FORM.gated_end },
    { FORM.brief + STATE.ready % 8, FORM.brief + STATE.completed % 8 },
    { FORM.brief + FORM.brief_sort + STATE.ready % 8, FORM.brief + FORM.brief_sort + STATE.completed % 8 },
    { FORM.brief + 2 * FORM.brief_sort + STATE.ready % 8, FORM.brief + 2 * FORM.brief_sort + STATE.completed % 8 },
  }
  -- Whether the type of a kind's order was asked for: what has another one ends the script before it writes.
  local is_asked = {}

  local function score_of(form)
    for _, range in ipairs(KNOWN) do
      if form >= range[1] and form <= range[2] then return CUT_SHORT end
    end
    return form
  end

  local function order(kind)
    if not is_asked[kind] then
      is_asked[kind] = redis.call('ZCARD', keys.parked(kind))
      kinds.list(keys.PARKED .. kind)
    end
    return batch.of('ZADD', keys.parked(kind))
  end

  -- Parks the turn of a job that is stored like this.
  local function park(stored, turn, source)
    -- Asked for: of a source that is merged with others, the score that is known is that of a later turn.
    local score = sources.is_line[source] and 0 or tonumber(redis.call('ZSCORE', sources.key[source], turn))
    batch.add(order(sources.kind[source]), score_of(byte(stored) or 0), turn .. pack('>i4', score))
  end

  -- Puts one back, or away for good. Answers how many turns are no longer parked, and how many of them were stale.
  local function put_back_one(kind, member, record, stored)
    local turn = sub(member, PARKED.turn, PARKED.turn_end)
    batch.add(batch.of('ZREM', keys.parked(kind)), member)
    if stored then
      batch.add(order(kind), CUT_SHORT, member)
      return 0, 0
    end
    if record and lines.stands_at(record, turn) then
      batch.add(kinds.zset(kind), read('>i4', member, PARKED.score), turn)
      return 1, 0
    end
    return 1, 1
  end

  -- Puts back turns of one kind whose form is known, at most so many. Answers how many it looked at.
  local function put_back_kind(kind, most)
    local members = {}
    for _, range in ipairs(KNOWN) do
      if #members < most then
        local found = redis.call('ZRANGEBYSCORE', keys.parked(kind), range[1], range[2], 'LIMIT', 0, most - #members)
        for _, member in ipairs(found) do
          members[#members + 1] = member
        end
      end
    end
    if #members == 0 then return 0 end
    local ids, gone, stale = {}, 0, 0
    for i, member in ipairs(members) do
      ids[i] = sub(member, TURN.id, TURN.id_end)
    end
    local found, strange = records.load(unpack(ids))
    for i, member in ipairs(members) do
      local less, left = put_back_one(kind, member, found[i], strange[i])
      gone, stale = gone + less, stale + left
    end
    batch.write()
    redis.call('HINCRBY', KEY.meta, 'parked', -gone)
    -- The turns of jobs that have left were taken for stale ones of the line. Noted last: a full server takes no such write
    -- as the first.
    if stale > 0 then lines.note_stale(kind, -stale) end
    if redis.call('EXISTS', keys.parked(kind)) == 0 then redis.call('SREM', keys.kinds, keys.PARKED .. kind) end
    return #members
  end

  -- Puts back turns of jobs whose form is known here, at most so many, of the kinds in asked[from] and after. Turns of other
  -- kinds stay: the program of those may not know the form, and would park them again.
  local function put_back(most, asked, from)
    for i = from, #asked do
      if most <= 0 then return end
      if redis.call('ZCARD', keys.parked(asked[i])) > 0 then most = most - put_back_kind(asked[i], most) end
    end
  end

  return { park = park, put_back = put_back }
end
