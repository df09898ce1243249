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
  local LOOKS_OF_LEVEL, found_levels = 8, 0
  -- How far below the highest level a claim begins that does not look at all of them.
  local offset = math.floor(read('>I2', ARGV[3], NONCE.level) / 2 ^ (byte(ARGV[3], NONCE.shift) % NONCE.shifts))

  -- Adds the levels from a place of an order on, before a score: that, how many stand before it, and how many it has. Answers
  -- whether there are no more.
  local function add_levels(levels, order, at, before)
    while #levels < LEVELS.looked do
      local first = redis.call('ZRANGE', order, at, at, 'WITHSCORES')
      local score = tonumber(first[2])
      if not score or score >= before then return true end
      local upto = redis.call('ZCOUNT', order, '-inf', first[2])
      levels[#levels + 1] = { score = score, base = at, size = upto - at }
      at = upto
    end
    return redis.call('ZCARD', order) <= at
  end

  -- The levels of an order that a claim looks at.
  local function levels_of(order)
    local levels = {}
    if add_levels(levels, order, 0, math.huge) then return levels end
    local start = levels[1].score + offset
    levels = {}
    add_levels(levels, order, redis.call('ZCOUNT', order, '-inf', '(' .. start), math.huge)
    add_levels(levels, order, 0, start)
    return levels
  end

  -- Makes of each zset among the sources one source for each of its levels. A line has one level.
  function a.split()
    local found, key, kind, is_line = s.number, {}, {}, {}
    for i = 1, found do
      key[i], kind[i], is_line[i] = s.key[i], s.kind[i], s.is_line[i]
    end
    s.number = 0
    local function put(i, level)
      local n = s.number + 1
      s.number, s.key[n], s.kind[n], s.is_line[n], s.read[n], of_source[n] = n, key[i], kind[i], is_line[i], 0, level
    end
    for i = 1, found do
      local levels = is_line[i] and {} or levels_of(key[i])
      for _, level in ipairs(levels) do
        put(i, level)
      end
      if #levels == 0 then put(i, nil) end
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
    local first, heads = redis.call('ZRANGE', order, 0, FEW - 1, 'WITHSCORES'), {}
    if #first < 2 * FEW then
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

    local levels = levels_of(order)
    found_levels = #levels
    for i, level in ipairs(levels) do
      heads[i] = advance(level)
    end
    return function()
      local least
      for i = 1, #levels do
        if heads[i] and (not least or is_before(heads[i], heads[least])) then least = i end
      end
      if not least then return nil end
      local member = heads[least].member
      heads[least] = advance(levels[least]) or false
      return member
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
