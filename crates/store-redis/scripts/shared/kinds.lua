-- The kinds that may have ready jobs, in one set: as they are named if their line may hold turns, marked if their zset may or
-- if turns of theirs are parked. Whatever puts a turn somewhere lists that, and a claim that finds nothing there takes it off.
-- So a claim over many kinds reads only what holds something. The empty name says that the list is complete: it goes with a
-- list that is lost, and comes back when nothing is ready but behind gates, or when a claim has counted (claim/sources).
-- Needs: keys, batch.
local kinds = (function()
  local listed, zsets, is_new = {}, {}, nil

  -- Lists a member. It is asked before anything is written, so that a key of another type ends the script there.
  local function list(member)
    if listed[member] then return end
    listed[member] = true
    local found = redis.call('SMISMEMBER', keys.kinds, member, '')
    if found[1] == 0 then batch.add(batch.of('SADD', keys.kinds), member) end
    if found[2] == 0 and is_new == nil then
      local ready = redis.call('HMGET', KEY.meta, 'c2', 'behind')
      is_new = (tonumber(ready[1]) or 0) - (tonumber(ready[2]) or 0) <= 0
      if is_new then batch.add(batch.of('SADD', keys.kinds), '') end
    end
  end

  -- The zset of a kind, to put turns into. Its type is asked for too, once.
  local function zset(kind)
    if not zsets[kind] then
      redis.call('ZCARD', keys.ready(kind))
      zsets[kind] = true
    end
    list(keys.ZSET .. kind)
    return batch.of('ZADD', keys.ready(kind))
  end

  return { list = list, zset = zset }
end)()
