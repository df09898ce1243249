-- Open gates in the order of their turns, as a claim asks them: the turns of those that gave jobs have moved, which is written
-- only when the claim is over. Made only where a queue has keys: for a claim that has asked so many in vain which stand there
-- still, first of all, and so many in all.
-- Needs: keys, clock, gates.
local function turns(passed, looked)
  local g, fetched, waiting = gates(), passed, {}

  -- Whether one key comes before another: by bytes, as the server orders them. The order of `<` depends on the locale.
  local function is_before_key(one, other)
    for i = 1, math.min(#one, #other) do
      local a, b = byte(one, i), byte(other, i)
      if a ~= b then return a < b end
    end
    return #one < #other
  end

  local function is_before(one, other)
    if one.turn ~= other.turn then return one.turn < other.turn end
    return is_before_key(one.key, other.key)
  end

  local t = { passed = passed, looked = looked }

  -- Opens gates whose time has come, a bounded number.
  function t.open_due()
    local due = redis.call('ZRANGEBYSCORE', g.closed, '-inf', clock.now_text, 'LIMIT', '0', GATES.looked)
    if #due == 0 then return end
    local lowest, opened = g.lowest_turn(), {}
    for i, key in ipairs(due) do
      opened[2 * i - 1], opened[2 * i] = lowest, key
    end
    redis.call('ZREM', g.closed, unpack(due))
    redis.call('ZADD', g.open, unpack(opened))
  end

  -- Whether there is an open one.
  function t.has_open()
    return redis.call('EXISTS', g.open) == 1
  end

  -- When the next one opens by itself; nil if none does.
  function t.next_open()
    local first = tonumber(redis.call('ZRANGE', g.closed, '0', '0', 'WITHSCORES')[2])
    return first and first < clock.NEVER_MICROS and first or nil
  end

  -- Whether there are so many; then their keys and turns as texts, of which the first are not asked again.
  function t.first_texts(count)
    local found = redis.call('ZRANGE', g.open, text_of(fetched), text_of(fetched + count - 1), 'WITHSCORES')
    return #found == 2 * count and found
  end

  -- So many were asked otherwise.
  function t.pass(number)
    fetched = fetched + number
  end

  -- The first ones, at most so many. Those of them that may be asked again are put back.
  function t.first(count)
    local found, before = redis.call('ZRANGE', g.open, fetched, fetched + count - 1, 'WITHSCORES'), #waiting
    local n = before
    for i = 1, #found, 2 do
      n = n + 1
      -- A table that has all its fields from the beginning does not grow, and one of eight is made in half the time of a larger
      -- one. What few gates have is added.
      waiting[n] = {
        key = found[i], turn = tonumber(found[i + 1]), order = false, removed = false, given = 0, most = 0, chosen = false,
        total = false,
      }
    end
    fetched = fetched + #found / 2
    -- All that come before those which were not read are among these.
    if before > 0 then table.sort(waiting, is_before) end
    local asked, left = waiting, {}
    for i = count + 1, n do
      left[i - count], asked[i] = asked[i], nil
    end
    waiting = left
    return asked
  end

  function t.put_back(gate)
    waiting[#waiting + 1] = gate
  end

  return t
end
