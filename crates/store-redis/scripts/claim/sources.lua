-- Where ready jobs of the kinds stand that a claim asks for: their lines and zsets that are listed (shared/kinds). Whether one
-- holds anything is seen when it is read.
-- Needs: keys, lines, batch, kinds.
local sources = (function()
  -- How many kinds one command is asked for; how many are looked at, or members of the list counted, where it is not complete.
  local KINDS_AT_ONCE, COUNTED_MAX = 1500, 4000
  -- By the number of each source: its key, kind and whether it is a line, how many of its turns were read, and whether there
  -- are no more. Lists, since a table for each would take longer than to read it. Beside them members of the list of kinds
  -- that stand for nothing.
  local s = { number = 0, key = {}, kind = {}, is_line = {}, read = {}, is_end = {}, empty = nil }
  local key, kind_of, is_line, read_before = s.key, s.kind, s.is_line, s.read
  local has_stale, exact = nil, {}
  -- Numbers as texts: a command is slow to make one of a number, and few are asked for.
  local texts = {}

  local function text(number)
    local known = texts[number]
    if not known then
      known = string.format('%d', number)
      texts[number] = known
    end
    return known
  end

  -- A source is exact if no member is stale: in a zset that is one whose job was taken from the same turn in the line,
  -- where it was counted as stale.
  function s.is_exact(number)
    if has_stale == nil then has_stale = redis.call('EXISTS', keys.stale) == 1 end
    if has_stale and exact[number] == nil then
      exact[number] = redis.call('HEXISTS', keys.stale, kind_of[number]) == 0
    end
    return not has_stale or exact[number]
  end

  local function add(source_key, kind, source_is_line)
    local number = s.number + 1
    s.number, key[number], kind_of[number], is_line[number] = number, source_key, kind, source_is_line
    read_before[number] = 0
  end

  local function note_empty(number)
    s.empty = s.empty or {}
    s.empty[#s.empty + 1] = is_line[number] and kind_of[number] or keys.ZSET .. kind_of[number]
  end

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
  local function look_at_all(from)
    for i = from, math.min(#ARGV, from + COUNTED_MAX - 1) do
      local kind = ARGV[i]
      local line, zset = keys.line(kind), keys.zset(kind)
      if redis.call('LLEN', line) > 0 then
        add(line, kind, true)
        kinds.list(kind)
      end
      if redis.call('ZCARD', zset) > 0 then
        add(zset, kind, false)
        kinds.list(keys.ZSET .. kind)
      end
    end
  end

  -- Finds those of the kinds in ARGV[from] and after; so many jobs of any kind are ready.
  function s.of_kinds(from, ready)
    for at = from, #ARGV, KINDS_AT_ONCE do
      local members, n = {}, 0
      for i = at, math.min(at + KINDS_AT_ONCE - 1, #ARGV) do
        members[n + 1], members[n + 2], n = ARGV[i], keys.ZSET .. ARGV[i], n + 2
      end
      members[n + 1] = ''
      local found = redis.call('SMISMEMBER', keys.kinds, unpack(members))
      if found[n + 1] == 0 then
        if ready <= 0 then return end
        if not is_complete(ready) then return look_at_all(from) end
      end
      for i = 1, n, 2 do
        local kind = members[i]
        if found[i] == 1 then add(keys.line(kind), kind, true) end
        if found[i + 1] == 1 then add(keys.zset(kind), kind, false) end
      end
    end
  end

  -- The next turns of a source, at most so many; those of a zset each with its score, if asked for.
  function s.next(number, most, with_scores)
    local before = read_before[number]
    local from, upto, piece, n = text(before), text(before + most - 1), nil, nil
    if is_line[number] then
      piece = redis.call('LRANGE', key[number], from, upto)
      n = #piece
    elseif with_scores then
      piece = redis.call('ZRANGE', key[number], from, upto, 'WITHSCORES')
      n = #piece / 2
    else
      piece = redis.call('ZRANGE', key[number], from, upto)
      n = #piece
    end
    read_before[number], s.is_end[number] = before + n, n < most
    if before + n == 0 then note_empty(number) end
    return piece
  end

  -- The next turn of a line, false if there is none.
  function s.next_one(number)
    local before = read_before[number]
    local turn = redis.call('LINDEX', key[number], text(before))
    if turn then
      read_before[number] = before + 1
    else
      s.is_end[number] = true
      if before == 0 then note_empty(number) end
    end
    return turn
  end

  -- Takes away the first turns of a source: of jobs that start, that have gone (so many are stale) or that are parked.
  function s.trim(number, turns, stale)
    if is_line[number] then
      redis.call('LTRIM', key[number], text(turns), '-1')
      if stale then lines.note_stale(kind_of[number], -stale) end
    else
      redis.call('ZREMRANGEBYRANK', key[number], '0', text(turns - 1))
    end
  end

  return s
end)()
