-- Finds the sources of a claim: what the list of kinds has of those that it asks for (shared/kinds). A list that was lost, or
-- is of an earlier program, does not say that it is complete: then each kind is looked at, and listed if it holds something,
-- until as many places are listed as jobs are ready.
-- Needs: keys, batch, kinds, sources.
local find_sources = (function()
  -- How many kinds one command is asked for; how many are looked at, or members of the list counted, where it is not complete.
  local KINDS_AT_ONCE, COUNTED_MAX = 1500, 4000

  -- How many turns a member of the list of kinds stands for.
  local function places(member)
    local mark, kind = sub(member, 1, #keys.ZSET), sub(member, #keys.ZSET + 1)
    if mark == keys.ZSET then
      return redis.call('ZCARD', keys.zset(kind))
    elseif mark == keys.PARKED then
      return redis.call('ZCARD', keys.parked(kind))
    end
    return redis.call('LLEN', keys.line(member))
  end

  -- Whether the list, which does not say so, has all that is ready: then it says so from now on.
  local function is_complete(ready)
    if redis.call('SCARD', keys.kinds) > COUNTED_MAX then return false end
    local turns = 0
    for _, member in ipairs(redis.call('SMEMBERS', keys.kinds)) do
      turns = turns + places(member)
    end
    for _, stale in ipairs(redis.call('HVALS', keys.stale)) do
      turns = turns - stale
    end
    if turns < ready then return false end
    batch.add(batch.of('SADD', keys.kinds), '')
    return true
  end

  -- Looks at each kind, where the list has lost some, and lists what holds something.
  local function look_at_all(asked, from)
    for i = from, math.min(#asked, from + COUNTED_MAX - 1) do
      local kind = asked[i]
      if redis.call('LLEN', keys.line(kind)) > 0 then
        sources.add(kind, true)
        kinds.list(kind)
      end
      if redis.call('ZCARD', keys.zset(kind)) > 0 then
        sources.add(kind, false)
        kinds.list(keys.ZSET .. kind)
      end
    end
  end

  -- Finds those of the kinds in asked[from] and after; so many jobs of any kind are ready.
  return function(asked, from, ready)
    for at = from, #asked, KINDS_AT_ONCE do
      local members, n = {}, 0
      for i = at, math.min(at + KINDS_AT_ONCE - 1, #asked) do
        members[n + 1], members[n + 2], n = asked[i], keys.ZSET .. asked[i], n + 2
      end
      members[n + 1] = ''
      local found = redis.call('SMISMEMBER', keys.kinds, unpack(members))
      if found[n + 1] == 0 then
        if ready <= 0 then return end
        if not is_complete(ready) then return look_at_all(asked, from) end
      end
      for i = 1, n, 2 do
        local kind = members[i]
        if found[i] == 1 then sources.add(kind, true) end
        if found[i + 1] == 1 then sources.add(kind, false) end
      end
    end
  end
end)()
