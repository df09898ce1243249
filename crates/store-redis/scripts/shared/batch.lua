-- Gathers writes, so that a key is written by one command for many jobs and nothing is written before all was read.
-- Removals go first: a server without memory refuses only what comes as a script's first write, and a call that
-- begins by taking something away goes through as a whole.
-- Needs: keys, record, lines.
local VALUES_MAX = 4000
local REMOVALS = { ZREM = true, SREM = true, HDEL = true }
local batches, batches_of, counts = {}, {}, {}

-- The values that one command will be given for a key.
local function batch(command, key)
  local of = batches_of[command]
  if not of then
    of = {}
    batches_of[command] = of
  end
  local values = of[key]
  if not values then
    values = {}
    of[key] = values
    batches[#batches + 1] = { command, key, values }
  end
  return values
end

-- Counts jobs into a state (its first byte in a record) or, below zero, out of it.
local function count(state, by)
  counts[state] = (counts[state] or 0) + by
end

local function write_batch(each)
  local values, changed = each[3], 0
  for from = 1, #values, VALUES_MAX do
    local answer = redis.call(each[1], each[2], unpack(values, from, math.min(from + VALUES_MAX - 1, #values)))
    changed = changed + (tonumber(answer) or 0)
  end
  return changed
end

-- Writes all that was gathered.
local function write()
  for _, each in ipairs(batches) do
    if REMOVALS[each[1]] then
      local left = #each[3] - write_batch(each)
      local kind = ready_kinds[each[2]]
      -- What a zset of ready jobs does not have stands in a line, and stays there.
      if kind and left > 0 then note_stale(kind, left) end
    end
  end
  for _, each in ipairs(batches) do
    if not REMOVALS[each[1]] then write_batch(each) end
  end
  for state, by in pairs(counts) do
    if by ~= 0 then
      redis.call('HINCRBY', META, 'c' .. string.char(state), by)
    end
  end
  batches, batches_of, counts = {}, {}, {}
end

-- As `write`, also on a server without memory if nothing is taken away: to take nothing away is a removal as well.
local function write_anyway()
  redis.call('HDEL', JOBS, '')
  write()
end
