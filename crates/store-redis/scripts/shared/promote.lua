-- What has expired becomes dead, what is due becomes ready; each in one step that is complete in itself.
-- What is strange stays, and is looked at again later, by this program or by one that knows it.
-- Made only where something is due, as mostly nothing is.
-- Needs: keys, clock, records, batch, moves.
local function promotion()
  local of, add = batch.of, batch.add
  local LATER = 30000000

  -- Moves jobs whose expiry has come, at most so many. Answers how many.
  local function expire(most)
    local ids = redis.call('ZRANGEBYSCORE', KEY.expiring, '-inf', clock.now, 'LIMIT', 0, most)
    if #ids == 0 then
      return 0
    end
    local found, strange = records.load(unpack(ids))
    redis.call('ZCARD', KEY.dead)
    redis.call('ZCARD', KEY.scheduled)
    local moved = 0
    for i, id in ipairs(ids) do
      local record = found[i]
      if record and byte(record) < STATE.running then
        moves.change(id, record, BYTES.expired .. sub(record, RECORD.attempt, RECORD.backoff_end))
        moved = moved + 1
      elseif strange[i] then
        add(of('ZADD', KEY.expiring), clock.now + LATER, id)
      else
        add(of('ZREM', KEY.expiring), id)
      end
    end
    batch.write()
    return moved
  end

  -- Moves jobs whose due instant has come, at most so many. Answers how many.
  local function promote(most)
    local members = redis.call('ZRANGEBYSCORE', KEY.scheduled, '-inf', clock.now, 'LIMIT', 0, most)
    if #members == 0 then
      return 0
    end
    local ids = {}
    for i, member in ipairs(members) do
      ids[i] = sub(member, PLACE.id)
    end
    local found, moved = redis.call('HMGET', KEY.jobs, unpack(ids)), 0
    for i, id in ipairs(ids) do
      local stored = found[i]
      local record = stored and records.expand(stored)
      if record and byte(record) == STATE.scheduled then
        moves.promote(id, record, stored)
        moved = moved + 1
      elseif stored and not record then
        add(of('ZADD', KEY.scheduled), clock.now + LATER, members[i])
      end
    end
    batch.prepare()
    -- They are the first ones, whether their job is still there or not.
    redis.call('ZREMRANGEBYRANK', KEY.scheduled, 0, #members - 1)
    batch.write()
    return moved
  end

  return { expire = expire, promote = promote }
end
