-- The order of acceptance: ids stand in blocks of at most MAX.block, one after the other. A block goes when the last of
-- its jobs has gone, unless it is the one that is being filled. An id that went and came again stands twice; what counts
-- is the block that its record names, and of two places in one block the later.
-- Needs: keys.
local blocks = (function()
  local released = {}

  local function drop(number)
    redis.call('UNLINK', keys.block(number))
    redis.call('ZREM', KEY.blocks, number)
    redis.call('HDEL', KEY.live, number)
  end

  -- Notes that a job leaves its block, of which this is the number as records have it.
  local function release(block)
    released[block] = (released[block] or 0) + 1
  end

  -- Writes what was noted. It comes after the batches.
  local function write_released()
    local current
    for block, jobs in pairs(released) do
      local number = string.format('%.0f', read('>I4', block))
      current = current or redis.call('HGET', KEY.meta, 'block')
      if redis.call('HINCRBY', KEY.live, number, -jobs) <= 0 and number ~= current then
        drop(number)
      end
    end
    released = {}
  end

  return { drop = drop, release = release, write_released = write_released }
end)()
