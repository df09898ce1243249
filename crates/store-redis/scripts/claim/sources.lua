-- Where ready jobs of the kinds stand that a claim asks for: their lines and zsets that hold something.
-- Needs: keys, lines, kinds.
local sources = (function()
  -- How many kinds one command is asked for.
  local KINDS_AT_ONCE = 4000
  -- Beside them: kinds that are listed and have nothing.
  local s = { empty = nil }
  local has_stale
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
  local function is_exact(kind)
    if has_stale == nil then has_stale = redis.call('EXISTS', keys.stale) == 1 end
    return not has_stale or redis.call('HEXISTS', keys.stale, kind) == 0
  end

  -- With room for all that is noted of it: where it is read, its next turn if it is merged, and what was passed.
  local function source(key, kind, is_line, left, exact)
    return {
      key = key, kind = kind, is_line = is_line, is_exact = exact, left = left, read = 0,
      piece = false, at = 0, size = 0, turn = false, score = false, due = 0, seq = 0,
      passed = false, stale = 0,
    }
  end

  local function add(kind)
    local line, zset = keys.line(kind), keys.zset(kind)
    local in_line, in_zset = redis.call('LLEN', line), redis.call('ZCARD', zset)
    if in_line + in_zset == 0 then
      s.empty = s.empty or {}
      s.empty[#s.empty + 1] = kind
      return
    end
    local exact = is_exact(kind)
    if in_line > 0 then s[#s + 1] = source(line, kind, true, in_line, exact) end
    if in_zset > 0 then s[#s + 1] = source(zset, kind, false, in_zset, exact) end
  end

  -- Finds those of the kinds in ARGV[from] and after.
  function s.of_kinds(from)
    for at = from, #ARGV, KINDS_AT_ONCE do
      local upto = math.min(at + KINDS_AT_ONCE - 1, #ARGV)
      for i, is_listed in ipairs(redis.call('SMISMEMBER', keys.kinds, unpack(ARGV, at, upto))) do
        if is_listed == 1 then add(ARGV[at + i - 1]) end
      end
    end
  end

  -- The same where kinds are not listed; lists those that have something.
  function s.of_all(from)
    for i = from, math.min(#ARGV, from + KINDS_AT_ONCE - 1) do
      local before = #s
      add(ARGV[i])
      if #s > before then kinds.list(ARGV[i]) end
    end
    s.empty = nil
  end

  -- The next turns of a source, at most so many; those of a zset each with its score, if asked for.
  function s.next(source, most, with_scores)
    local size = math.min(most, source.left)
    local from, upto = text(source.read), text(source.read + size - 1)
    source.read, source.left = source.read + size, source.left - size
    if source.is_line then
      return redis.call('LRANGE', source.key, from, upto)
    elseif with_scores then
      return redis.call('ZRANGE', source.key, from, upto, 'WITHSCORES')
    end
    return redis.call('ZRANGE', source.key, from, upto)
  end

  -- Takes away the turns of a source that were passed: of jobs that start, that have gone or that are parked.
  function s.trim(source)
    if source.is_line then
      redis.call('LTRIM', source.key, text(source.passed), '-1')
      if source.stale > 0 then lines.note_stale(source.kind, -source.stale) end
    else
      redis.call('ZREMRANGEBYRANK', source.key, '0', text(source.passed - 1))
    end
  end

  return s
end)()
