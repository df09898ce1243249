-- Where ready jobs of the kinds stand that a claim asks for: lines and zsets. Which of them those are `find` knows; whether
-- one holds anything is seen when it is read.
-- Needs: keys, lines.
local sources = (function()
  -- By the number of each source: its key, kind and whether it is a line, how many of its turns were read, and whether there
  -- are no more. Lists, since a table for each would take longer than to read it. Beside them members of the list of kinds
  -- that stand for nothing.
  local s = { number = 0, key = {}, kind = {}, is_line = {}, read = {}, is_end = {}, empty = nil }
  local key, kind_of, is_line, read_before = s.key, s.kind, s.is_line, s.read
  local has_stale, exact = nil, {}
  -- A source is exact if no member is stale: in a zset that is one whose job was taken from the same turn in the line,
  -- where it was counted as stale.
  function s.is_exact(number)
    if has_stale == nil then has_stale = redis.call('EXISTS', keys.stale) == 1 end
    if has_stale and exact[number] == nil then
      exact[number] = redis.call('HEXISTS', keys.stale, kind_of[number]) == 0
    end
    return not has_stale or exact[number]
  end

  -- Adds the line of a kind, or its zset.
  function s.add(kind, source_is_line)
    local number = s.number + 1
    key[number] = source_is_line and keys.line(kind) or keys.zset(kind)
    s.number, kind_of[number], is_line[number], read_before[number] = number, kind, source_is_line, 0
  end

  local function note_empty(number)
    s.empty = s.empty or {}
    s.empty[#s.empty + 1] = is_line[number] and kind_of[number] or keys.ZSET .. kind_of[number]
  end

  -- The next turns of a source, at most so many; those of a zset each with its score, if asked for.
  function s.next(number, most, with_scores)
    local before = read_before[number]
    local from, upto, piece, n = text_of(before), text_of(before + most - 1), nil, nil
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
    local turn = redis.call('LINDEX', key[number], text_of(before))
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
      redis.call('LTRIM', key[number], text_of(turns), '-1')
      if stale then lines.note_stale(kind_of[number], -stale) end
    else
      redis.call('ZREMRANGEBYRANK', key[number], '0', text_of(turns - 1))
    end
  end

  return s
end)()
