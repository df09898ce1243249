-- The order of a queue with aged priority (core: Jobs::claim): by rank, which is the due instant and so much more for each level
-- that the score says, then by score, then by seq. Every order of ready jobs stands by score, due and seq, so that each level of
-- it is a part of its own, and the parts are merged. Made only where a definition has an aging: of so many micros.
-- Needs: keys, sources. ARGV: those of jobs/claim.
local aged_made
local function aged(worth)
  local a, s, of_source = { worth = worth }, sources, {}
  -- How many members are read at once; where there are fewer in all, no level is looked for.
  local FEW = 32
  -- To find a level and to read its first members costs about as much as to look at so many members. How many levels the last
  -- walk has found.
  local LOOKS_OF_LEVEL, found_levels = 24, 0
  -- How many levels of all orders one claim looks at, about; more than there are scores.
  local LEVELS_MAX, SCORES = 1000, 65536
  -- How far below the highest level a claim begins that does not look at all of them.
  local offset = math.floor(read('>I2', ARGV[3], NONCE.level) / 2 ^ (byte(ARGV[3], NONCE.shift) % NONCE.shifts))

  -- Adds the levels from a place of an order on, before a score: that, how many stand before it, and how many it has, until
  -- there are so many. Answers whether there are no more.
  local function add_levels(levels, order, at, before, most)
    while #levels < most do
      local first = redis.call('ZRANGE', order, at, at, 'WITHSCORES')
      local score = tonumber(first[2])
      if not score or score >= before then return true end
      local upto = redis.call('ZCOUNT', order, '-inf', first[2])
      levels[#levels + 1] = { score = score, base = at, size = upto - at }
      at = upto
    end
    return redis.call('ZCARD', order) <= at
  end

  -- Whether a line, whose jobs are a level of its kind as well, is among the levels that a claim looks at: from a score on, and
  -- after the last those before it. Takes away the level that it is looked at for.
  local function is_among(levels, start, most)
    local function place(score) return score < start and score + SCORES or score end
    for _, level in ipairs(levels) do
      if level.score == 0 then return true end
      if place(level.score) > place(0) then
        levels[most] = nil
        return true
      end
    end
    return #levels < most
  end

  -- The levels of an order that a claim looks at, at most so many, and whether it looks at the line beside it, if there is one.
  local function levels_of(order, line, most)
    local levels, is_all = {}, nil
    is_all = add_levels(levels, order, 0, math.huge, most)
    local has_jobs = line and #levels == most and redis.call('EXISTS', line) == 1
    if is_all and not (has_jobs and redis.call('ZCOUNT', order, '0', '0') == 0) then return levels, true end
    local highest = levels[1].score
    local start = (has_jobs and math.min(highest, 0) or highest) + offset
    levels = {}
    add_levels(levels, order, redis.call('ZCOUNT', order, '-inf', '(' .. start), math.huge, most)
    add_levels(levels, order, 0, start, most)
    return levels, not has_jobs or is_among(levels, start, most)
  end

  -- Makes of each zset among the sources one source for each of its levels. A line has one level. Where there are very many
  -- zsets, a claim looks at fewer levels of each.
  function a.split()
    local found, key, kind, is_line, line_of, zsets = s.number, {}, {}, {}, {}, 0
    for i = 1, found do
      key[i], kind[i], is_line[i] = s.key[i], s.kind[i], s.is_line[i]
      if is_line[i] then
        line_of[kind[i]] = i
      else
        zsets = zsets + 1
      end
    end
    local most, levels, left_out = math.max(1, math.min(LEVELS.looked, math.floor(LEVELS_MAX / zsets))), {}, {}
    for i = 1, found do
      if not is_line[i] then
        local line, is_asked = line_of[kind[i]], nil
        levels[i], is_asked = levels_of(key[i], line and key[line], most)
        if line then left_out[line] = not is_asked end
      end
    end
    s.number = 0
    local function put(i, level)
      local n = s.number + 1
      s.number, s.key[n], s.kind[n], s.is_line[n], s.read[n], of_source[n] = n, key[i], kind[i], is_line[i], 0, level
    end
    for i = 1, found do
      for _, level in ipairs(levels[i] or {}) do
        put(i, level)
      end
      if not left_out[i] and (not levels[i] or #levels[i] == 0) then put(i, nil) end
    end
    if next(of_source) then a.replace() end
  end

  -- From now on turns of levels are read and taken away as such.
  function a.replace()
    local plain_next, plain_trim = s.next, s.trim
    function s.next(number, most, with_scores)
      local level, before = of_source[number], s.read[number]
      if not level then return plain_next(number, most, with_scores) end
      local n = math.min(most, level.size - before)
      s.read[number], s.is_end[number] = before + n, before + n == level.size
      if n <= 0 then return {} end
      local from = level.base + before
      if not with_scores then return redis.call('ZRANGE', s.key[number], from, from + n - 1) end
      return redis.call('ZRANGE', s.key[number], from, from + n - 1, 'WITHSCORES')
    end

    function s.trim(number, turns, stale)
      local level = of_source[number]
      if not level then return plain_trim(number, turns, stale) end
      -- Turns of other levels may have been taken away before.
      local base = redis.call('ZCOUNT', s.key[number], '-inf', '(' .. level.score)
      redis.call('ZREMRANGEBYRANK', s.key[number], base, base + turns - 1)
    end
  end

  -- What stands at a place of a piece, which has members and their scores.
  local function standing(piece, place)
    local member, score = piece[place], tonumber(piece[place + 1])
    local due, seq = read('>I8I8', member)
    return { member = member, rank = due + score * worth, score = score, seq = seq }
  end

  local function is_before(one, other)
    if one.rank ~= other.rank then return one.rank < other.rank end
    if one.score ~= other.score then return one.score < other.score end
    return one.seq < other.seq
  end

  -- Goes through the members of one order; answers a function that gives the next one, or nil.
  local function walk(order)
    local first = redis.call('ZRANGE', order, 0, FEW - 1, 'WITHSCORES')
    if #first < 2 * FEW then
      local heads = {}
      for place = 1, #first, 2 do
        heads[#heads + 1] = standing(first, place)
      end
      table.sort(heads, is_before)
      local at = 0
      return function()
        at = at + 1
        return heads[at] and heads[at].member
      end
    end

    -- Goes to the next member of a level; nil if there is none. Of most levels few have their turn, so that the first piece is
    -- small, and each is twice as long as the one before.
    local function advance(level)
      local place = (level.place or -1) + 2
      if not level.piece or not level.piece[place] then
        local from, length = level.base + (level.read or 0), level.length or 2
        level.length = math.min(2 * length, FEW)
        local upto = math.min(from + length, level.base + level.size) - 1
        if upto < from then return nil end
        level.piece, level.read, place = redis.call('ZRANGE', order, from, upto, 'WITHSCORES'), upto + 1 - level.base, 1
      end
      level.place = place
      return standing(level.piece, place)
    end

    local levels, heads = levels_of(order, nil, LEVELS.looked), {}
    found_levels = #levels
    -- The one that comes first is the last. Where another belongs is found by few comparisons.
    local function put(level, head)
      local low, high = 1, #heads
      while low <= high do
        local middle = math.floor((low + high) / 2)
        if is_before(head, heads[middle]) then
          low = middle + 1
        else
          high = middle - 1
        end
      end
      head.level = level
      table.insert(heads, low, head)
    end
    for _, level in ipairs(levels) do
      put(level, advance(level))
    end
    return function()
      local head = table.remove(heads)
      if not head then return nil end
      local following = advance(head.level)
      if following then put(head.level, following) end
      return head.member
    end
  end

  -- As `choose` of claim/behind, in this order, without members that are taken already.
  function a.choose(gate, most, kinds, taken)
    found_levels = 0
    local looks, chosen, looked, next_member = most + GATES.passed, {}, 0, most > 0 and walk(gate.order)
    while #chosen < most and looked < looks do
      local member = next_member()
      if not member then break end
      if not taken[member] then
        looked = looked + 1
        if kinds[sub(member, BEHIND.kind)] then chosen[#chosen + 1] = member end
      end
    end
    gate.chosen, gate.total = chosen, redis.call('ZCARD', gate.order)
    return #chosen, looked + found_levels * LOOKS_OF_LEVEL
  end

  aged_made = a
  return a
end
