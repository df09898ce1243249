-- Where a job that does not run is found: by its turn, its due instant, its expiry or its end.
-- Needs: keys, record, lines, batch, blocks.
local ENDED = { [S_COMPLETED] = COMPLETED, [S_DEAD] = DEAD, [S_CANCELLED] = CANCELLED }

local function add(values, a, b)
  local n = #values
  values[n + 1] = a
  values[n + 2] = b
end

local function may_expire(record)
  return sub(record, 50, 57) ~= ZERO8 and sub(record, 4, 7) == ZERO4
end

-- Puts a job into the orders of its state, and counts it.
local function enter(id, record)
  local state = byte(record, 1)
  count(state, 1)
  if state == S_READY then
    add(batch('ZADD', ready_key(kind_of(record))), 0 - read('>h', record, 48), sub(record, 32, 47) .. id)
  elseif state == S_SCHEDULED then
    add(batch('ZADD', SCHEDULED), (read('>I8', record, 32)), sub(record, 40, 47) .. id)
  elseif ENDED[state] then
    add(batch('ZADD', ENDED[state]), (read('>I8', record, 66)), sub(record, 40, 47) .. id)
  end
  if state < S_RUNNING and may_expire(record) then
    add(batch('ZADD', EXPIRING), (read('>I8', record, 50)), id)
  end
end

-- Takes a job out of the orders of its state, and counts it out.
local function leave(id, record)
  local state = byte(record, 1)
  count(state, -1)
  if state == S_READY then
    add(batch('ZREM', ready_key(kind_of(record))), sub(record, 32, 47) .. id)
  elseif state == S_SCHEDULED then
    add(batch('ZREM', SCHEDULED), sub(record, 40, 47) .. id)
  elseif ENDED[state] then
    add(batch('ZREM', ENDED[state]), sub(record, 40, 47) .. id)
  end
  if state < S_RUNNING and may_expire(record) then
    add(batch('ZREM', EXPIRING), id)
  end
end

-- Whether any job of the queue has an output, or progress: mostly none has, and nothing must be removed. Asked once, and
-- before the first write, so that a key of another type ends the script there.
local outputs, progress

local function look_beside()
  if not outputs then
    outputs, progress = redis.call('HLEN', OUTPUTS), redis.call('HLEN', PROGRESS)
  end
end

-- Removes all that is kept of jobs that complete in their first attempt with nothing apart (record.lua), but for their
-- blocks. Ids may be added to the list until all is written.
local function forget_first(ids)
  look_beside()
  batches[#batches + 1] = { 'HDEL', JOBS, ids }
  if outputs > 0 then batches[#batches + 1] = { 'HDEL', OUTPUTS, ids } end
  if progress > 0 then batches[#batches + 1] = { 'HDEL', PROGRESS, ids } end
end

-- Removes all that is kept of a job; its places are left before. The attempt that runs or completed has no record of
-- its own unless it was reaped before; those before it have, as far as they are kept. Answers how many records of
-- attempts that may be.
local function forget(id, record)
  look_beside()
  add(batch('HDEL', JOBS), id)
  if outputs > 0 then add(batch('HDEL', OUTPUTS), id) end
  if progress > 0 then add(batch('HDEL', PROGRESS), id) end
  if read('>I4', record, 74) > INLINE_MAX then
    add(batch('HDEL', BODIES), id)
  end
  local state, last = byte(record, 1), read('>I8', record, 24)
  if state == S_RUNNING or state == S_COMPLETED and byte(record, 2) ~= REAPED then
    last = last - 1
  end
  local attempts = math.min(last, ATTEMPTS_KEPT)
  if attempts > 0 then
    local values = batch('HDEL', ATTEMPTS)
    for number = last - attempts + 1, last do
      add(values, id .. pack('>I8', number))
    end
  end
  release(sub(record, 82, 85))
  return attempts
end
