-- Ready jobs of a form that this program does not know. A claim that meets one parks its turn, under the form and with the
-- score that it had, so that it holds up no other job and no claim meets it again; a program that knows the form puts it
-- back before it takes jobs, so that it has lost nothing there. What is cut short is parked for good.
-- Made only where there is one.
-- Needs: keys, records, lines, batch, kinds.
local function parked()
  -- How many parked turns one claim looks at.
  local CUT_SHORT, LOOKED_AT_MAX = 256, 1000
  -- The first and the last of the forms that are known here.
  local KNOWN = {
    { STATE.scheduled, STATE.cancelled },
    { FORM.short, FORM.fresh_end },
    { FORM.first, FORM.begun },
  }

  local function score_of(form)
    for _, range in ipairs(KNOWN) do
      if form >= range[1] and form <= range[2] then return CUT_SHORT end
    end
    return form
  end

  -- Parks the turn of a job that is stored like this.
  local function park(stored, turn, source)
    -- Asked for: of a source that is merged with others, the score that is known is that of a later turn.
    local score = source.is_line and 0 or tonumber(redis.call('ZSCORE', source.key, turn))
    batch.add(batch.of('ZADD', keys.parked), score_of(byte(stored) or 0), turn .. pack('>i4', score) .. source.kind)
  end

  -- Answers the kind if the job has left without its turn.
  local function put_back_one(member, record, stored)
    local turn, kind = sub(member, PARKED.turn, PARKED.turn_end), sub(member, PARKED.kind)
    batch.add(batch.of('ZREM', keys.parked), member)
    if stored then
      batch.add(batch.of('ZADD', keys.parked), CUT_SHORT, member)
      return nil
    end
    if record and lines.stands_at(record, turn) then
      batch.add(kinds.zset(kind), read('>i4', member, PARKED.score), turn)
      return nil
    end
    return kind
  end

  -- Those of the members that are of the kinds in ARGV[from] and after, at most so many, and their ids.
  local function wanted(members, most, from)
    local is_asked, chosen, ids = {}, {}, {}
    for i = from, #ARGV do
      is_asked[ARGV[i]] = true
    end
    for _, member in ipairs(members) do
      if #ids < most and is_asked[sub(member, PARKED.kind)] then
        chosen[#chosen + 1], ids[#ids + 1] = member, sub(member, TURN.id, TURN.id_end)
      end
    end
    return chosen, ids
  end

  -- Puts back turns of jobs whose form is known here, at most so many, of the kinds in ARGV[from] and after. Turns of other
  -- kinds stay, however many stand before: the program of those may not know the form, and would park them again.
  local function put_back(most, from)
    for _, range in ipairs(KNOWN) do
      local there = redis.call('ZRANGEBYSCORE', keys.parked, range[1], range[2], 'LIMIT', 0, LOOKED_AT_MAX)
      local members, ids = wanted(there, most, from)
      if #ids > 0 then
        local found, strange = records.load(unpack(ids))
        local left = {}
        for i, member in ipairs(members) do
          left[#left + 1] = put_back_one(member, found[i], strange[i])
        end
        batch.write()
        -- Their turns were taken for stale ones of the line. Noted last: a full server takes no such write as the first.
        for _, kind in ipairs(left) do
          lines.note_stale(kind, -1)
        end
      end
    end
  end

  return { park = park, put_back = put_back }
end
