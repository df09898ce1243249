-- What has expired becomes dead, what is due becomes ready; each in one step that is complete in itself.
-- What is strange stays, and is looked at again later, by this program or by one that knows it.
-- Needs: keys, clock, record, lines, batch, blocks, places.
local LATER = 30000000

-- Moves jobs whose expiry has come, at most so many. Answers how many.
local function expire(most)
  local ids = redis.call('ZRANGEBYSCORE', EXPIRING, '-inf', now, 'LIMIT', 0, most)
  if #ids == 0 then
    return 0
  end
  local records, strange = load_records(unpack(ids))
  redis.call('ZCARD', DEAD)
  redis.call('ZCARD', SCHEDULED)
  local jobs, moved = batch('HSET', JOBS), 0
  for i, id in ipairs(ids) do
    local record = records[i]
    if record and byte(record, 1) < S_RUNNING then
      leave(id, record)
      record = EXPIRED .. sub(record, 4, 65) .. now8 .. sub(record, 74)
      add(jobs, id, record)
      enter(id, record)
      moved = moved + 1
    elseif strange[i] then
      add(batch('ZADD', EXPIRING), now + LATER, id)
    else
      add(batch('ZREM', EXPIRING), id)
    end
  end
  write()
  return moved
end

-- Moves jobs whose due instant has come, at most so many. Answers how many.
local function promote(most)
  local members = redis.call('ZRANGEBYSCORE', SCHEDULED, '-inf', now, 'LIMIT', 0, most)
  if #members == 0 then
    return 0
  end
  local ids = {}
  for i, member in ipairs(members) do
    ids[i] = sub(member, 9)
  end
  local records = redis.call('HMGET', JOBS, unpack(ids))
  local jobs, moved = batch('HSET', JOBS), 0
  for i, id in ipairs(ids) do
    local stored = records[i]
    local record = stored and expand(stored)
    if record and byte(record, 1) == S_SCHEDULED then
      -- One more in the first byte is ready, in the short form as in the long one.
      add(jobs, id, string.char(byte(stored, 1) + 1) .. sub(stored, 2))
      add(batch('ZADD', ready_key(kind_of(record))), 0 - read('>h', record, 48), sub(record, 32, 47) .. id)
      moved = moved + 1
    elseif stored and not record then
      add(batch('ZADD', SCHEDULED), now + LATER, members[i])
    end
  end
  -- They are the first ones, whether their job is still there or not.
  redis.call('ZREMRANGEBYRANK', SCHEDULED, 0, #members - 1)
  count(S_SCHEDULED, -moved)
  count(S_READY, moved)
  write()
  return moved
end

-- Clears the head of a line that holds little but stale members: what lives there goes to the kind's zset. At most so
-- many members of one line.
local function clear_line(most)
  local stale = redis.call('HGETALL', STALE)
  for i = 1, #stale, 2 do
    local kind, key, count = stale[i], line_key(stale[i]), tonumber(stale[i + 1])
    if count > 1000 and 2 * count > redis.call('LLEN', key) then
      local members, ids, passed = redis.call('LRANGE', key, 0, most - 1), {}, 0
      for m, member in ipairs(members) do
        ids[m] = sub(member, 17)
      end
      local records, strange = {}, {}
      if #ids > 0 then records, strange = load_records(unpack(ids)) end
      for m, member in ipairs(members) do
        if strange[m] or records[m] and stands_at(records[m], member) then
          add(batch('ZADD', ready_key(kind)), 0, member)
        else
          passed = passed + 1
        end
      end
      redis.call('LTRIM', key, #members, -1)
      write()
      note_stale(kind, #members == 0 and -count or -passed)
      return
    end
  end
end

-- The score of the first in an order, if there is one.
local function first_score(key)
  return tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
end
