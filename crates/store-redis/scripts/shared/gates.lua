-- Gates: where the ready jobs of each key stand that jobs take turns by. A gate is open, and has a turn, or closed until an
-- instant; there is one from when a job of its key becomes ready until a claim finds none behind it (claim/keyed). Also knows
-- how many jobs of each key run. Made only where a job has a key.
-- Needs: keys, records, batch.
local gates_made
local function gates()
  if gates_made then return gates_made end
  local of, add = batch.of, batch.add
  local open, closed, busy = keys.prefix .. NAME.open, keys.prefix .. NAME.closed, keys.prefix .. NAME.busy
  -- By key, as this script has found or made them: whether a gate is open, nil if it was not looked for, 'none' if there is
  -- none; and the order behind it. Then by how much the number of running jobs of a key changes, and of all that are ready.
  local is_open, orders, running, behind, is_noted = {}, {}, {}, 0, false
  local lowest

  -- The turn of a gate that is made or opens: the lowest one. That does not change by gates that get it.
  local function lowest_turn()
    lowest = lowest or redis.call('ZRANGE', open, '0', '0', 'WITHSCORES')[2] or '0'
    return lowest
  end

  -- Written after all else of the batch. Read here first, so that a key of another type ends the script before it writes.
  local function note()
    if is_noted then return end
    is_noted = true
    redis.call('HLEN', busy)
    batch.later(function()
      for key, by in pairs(running) do
        if redis.call('HINCRBY', busy, key, by) <= 0 then redis.call('HDEL', busy, key) end
      end
      if behind ~= 0 then redis.call('HINCRBY', KEY.meta, 'behind', behind) end
      running, behind, is_noted = {}, 0, false
    end)
  end

  local function find_gate(key)
    if is_open[key] == nil then
      is_open[key] = redis.call('ZSCORE', open, key) and true or not redis.call('ZSCORE', closed, key) and 'none'
    end
    return is_open[key]
  end

  local function open_gate(key)
    add(of('ZADD', open), lowest_turn(), key)
    is_open[key] = true
  end

  local g = { open = open, closed = closed, busy = busy, lowest_turn = lowest_turn }

  -- The order of ready jobs behind a gate.
  function g.order(key)
    if not orders[key] then
      orders[key] = keys.prefix .. NAME.behind .. key
      redis.call('ZCARD', orders[key])
    end
    return orders[key]
  end

  -- The key of a job that has one, in the long form of its record.
  function g.key_of(record)
    local last = records.content_end(record)
    local from = last + 1 - records.keys_width(record)
    if byte(record, RECORD.flags) % FLAGS.gate >= FLAGS.key then last = last - WIDTH.unique end
    return sub(record, from, last - 1)
  end

  -- The member of a job in the order behind its gate (BEHIND).
  local function member(id, record)
    return sub(record, RECORD.due, RECORD.seq_end) .. id .. records.kind_of(record)
  end

  -- Counts ready jobs with a key.
  function g.count(by)
    note()
    behind = behind + by
  end

  function g.enter(id, record)
    add(of('ZADD', g.order(g.key_of(record))), 0 - read('>h', record, RECORD.priority), member(id, record))
    g.count(1)
  end

  function g.leave(id, record)
    add(of('ZREM', g.order(g.key_of(record))), member(id, record))
    g.count(-1)
  end

  -- A job of a key is ready.
  function g.came(key)
    if find_gate(key) == 'none' then open_gate(key) end
  end

  -- So many ready jobs of a key start.
  function g.started(key, jobs)
    g.count(-jobs)
    running[key] = (running[key] or 0) + jobs
  end

  -- Told of a job with a key that goes from a state to another, or nowhere if it is removed. What starts is told by `started`.
  function g.moved(record, from, to)
    local key = g.key_of(record)
    if from == STATE.running then
      note()
      running[key] = (running[key] or 0) - 1
      if find_gate(key) == false then
        add(of('ZREM', closed), key)
        open_gate(key)
      end
    end
    if to == STATE.ready then g.came(key) end
  end

  gates_made = g
  return g
end
