-- What has expired becomes dead, what is due becomes ready; each in one step that is complete in itself.
-- Needs: keys, clock, record, batch, blocks, places.

-- Moves jobs whose expiry has come, at most so many. Answers how many.
local function expire(most)
  local ids = redis.call('ZRANGEBYSCORE', EXPIRING, '-inf', now, 'LIMIT', 0, most)
  if #ids == 0 then
    return 0
  end
  local records = redis.call('HMGET', JOBS, unpack(ids))
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
    local record = records[i]
    if record and byte(record, 1) == S_SCHEDULED then
      record = '2' .. sub(record, 2)
      add(jobs, id, record)
      add(batch('ZADD', ready_key(kind_of(record))), 0 - read('>h', record, 48), sub(record, 32, 47) .. id)
      moved = moved + 1
    end
  end
  -- They are the first ones, whether their job is still there or not.
  redis.call('ZREMRANGEBYRANK', SCHEDULED, 0, #members - 1)
  count(S_SCHEDULED, -moved)
  count(S_READY, moved)
  write()
  return moved
end

-- The score of the first in an order, if there is one.
local function first_score(key)
  return tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
end
