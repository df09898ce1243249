-- Gathers writes, so that a key is written by one command for many jobs and nothing is written before all was read.
-- Removals go first: a server without memory refuses only what comes as a script's first write, and a call that
-- begins by taking something away goes through as a whole.
-- Needs: keys, lines.
local batch = (function()
  local VALUES_MAX = 4000
  local REMOVALS = { ZREM = true, SREM = true, HDEL = true, UNLINK = true }
  local gathered, by_command, counts, last, removals = {}, {}, {}, {}, {}

  -- Has a command given these values for a key, which may still grow until all is written.
  local function give(command, key, values)
    gathered[#gathered + 1] = { command, key, values }
  end

  -- The values that one command will be given for a key.
  local function of(command, key)
    local by_key = by_command[command]
    if not by_key then
      by_key = {}
      by_command[command] = by_key
    end
    local values = by_key[key]
    if not values then
      values = {}
      by_key[key] = values
      give(command, key, values)
    end
    return values
  end

  local function add(values, a, b)
    local n = #values
    values[n + 1] = a
    values[n + 2] = b
  end

  -- Counts jobs into a state (its first byte in a record) or, below zero, out of it.
  local function count(state, by)
    counts[state] = (counts[state] or 0) + by
  end

  -- Has a function called when all else is written.
  local function later(write_more)
    last[#last + 1] = write_more
  end

  -- Has a function called before all else is written. It must take something away.
  local function first(remove)
    removals[#removals + 1] = remove
  end

  local b

  -- Calls `unread`, if there is such a function: it reads for many jobs at once what is to be written of them. Who writes
  -- something before the batch calls this first, so that a key of another type ends the script before that.
  local function prepare()
    local read_more = b.unread
    if read_more then
      b.unread = nil
      read_more()
    end
  end

  local function write_one(each)
    local values, changed = each[3], 0
    for from = 1, #values, VALUES_MAX do
      local answer = redis.call(each[1], each[2], unpack(values, from, math.min(from + VALUES_MAX - 1, #values)))
      changed = changed + (tonumber(answer) or 0)
    end
    return changed
  end

  -- Writes all that was gathered.
  local function write()
    prepare()
    for _, remove in ipairs(removals) do
      remove()
    end
    for _, each in ipairs(gathered) do
      if REMOVALS[each[1]] then
        local left = #each[3] - write_one(each)
        local kind = keys.kind_of[each[2]]
        -- What a zset of ready jobs does not have stands in a line, and stays there.
        if kind and left > 0 then lines.note_stale(kind, left) end
      end
    end
    for _, each in ipairs(gathered) do
      if not REMOVALS[each[1]] then write_one(each) end
    end
    for state, by in pairs(counts) do
      if by ~= 0 then
        redis.call('HINCRBY', KEY.meta, 'c' .. char(state), by)
      end
    end
    for _, write_more in ipairs(last) do
      write_more()
    end
    gathered, by_command, counts, last, removals = {}, {}, {}, {}, {}
  end

  -- As `write`, also on a server without memory if nothing is taken away: to take nothing away is a removal as well.
  local function write_anyway()
    prepare()
    redis.call('HDEL', KEY.jobs, '')
    write()
  end

  b = {
    give = give,
    of = of,
    add = add,
    count = count,
    later = later,
    first = first,
    -- A function that still has something to read before all is written.
    unread = nil,
    prepare = prepare,
    write = write,
    write_anyway = write_anyway,
  }
  return b
end)()
