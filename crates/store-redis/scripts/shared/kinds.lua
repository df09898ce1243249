-- The kinds that may have ready jobs: whatever puts a turn into a line or a zset lists the kind, and a claim that finds
-- neither takes it off the list. So a claim over many kinds asks only for those that have something.
-- Needs: keys, batch.
local kinds = (function()
  local listed, zsets = {}, {}

  -- Lists a kind. It is asked before anything is written, so that a key of another type ends the script there.
  local function list(kind)
    if not listed[kind] then
      listed[kind] = true
      if redis.call('SISMEMBER', keys.kinds, kind) == 0 then batch.add(batch.of('SADD', keys.kinds), kind) end
    end
  end

  -- The zset of a kind, to put turns into. Its type is asked for too, once.
  local function zset(kind)
    if not zsets[kind] then
      redis.call('ZCARD', keys.ready(kind))
      zsets[kind] = true
    end
    list(kind)
    return batch.of('ZADD', keys.ready(kind))
  end

  return { list = list, zset = zset }
end)()
