-- Gates: where the ready jobs of each key stand that jobs take turns by. A gate is open, and has a turn, or closed until an
-- instant; there is one from when a job of its key becomes ready until a claim finds none behind it (claim/keyed). Also knows
-- how many jobs of each key run. What happens to keys is gathered, and read and written for all of them together. Made only
-- where a job has a key.
-- Needs: keys, records, batch.
local gates_made
local function gates()
  if gates_made then return gates_made end
  local of, add = batch.of, batch.add
  local open, closed, busy = keys.prefix .. NAME.open, keys.prefix .. NAME.closed, keys.prefix .. NAME.busy
  -- By key, since the last write: whether jobs became ready, whether jobs no longer run, by how much the number of those that
  -- run changes, and how many run, where that was read. Then by how much the number of all that are ready changes.
  local came, ended, running, counts, behind, is_noted = {}, {}, {}, {}, 0, false
  local orders, lowest = {}, nil

  -- The turn of a gate that is made or opens: the lowest one. That does not change by gates that get it.
  local function lowest_turn()
    lowest = lowest or redis.call('ZRANGE', open, '0', '0', 'WITHSCORES')[2] or '0'
    return lowest
  end

  local function names_of(set)
    local names, n = {}, 0
    for key in pairs(set) do
      n = n + 1
      names[n] = key
    end
    return names, n
  end

  -- Opens those gates of these keys that are closed.
  local function open_closed(names)
    if redis.call('ZCARD', closed) == 0 then return end
    for i, is_closed in ipairs(redis.call('ZMSCORE', closed, unpack(names))) do
      if is_closed then
        add(of('ZREM', closed), names[i])
        add(of('ZADD', open), lowest_turn(), names[i])
        came[names[i]] = nil
      end
    end
  end

  -- Makes gates for those of these keys that have none.
  local function make_gates(names)
    local missing = {}
    for i, is_open in ipairs(redis.call('ZMSCORE', open, unpack(names))) do
      if not is_open then missing[#missing + 1] = names[i] end
    end
    if #missing == 0 then return end
    local found = redis.call('ZCARD', closed) > 0 and redis.call('ZMSCORE', closed, unpack(missing)) or {}
    for i = 1, #missing do
      if not found[i] then add(of('ZADD', open), lowest_turn(), missing[i]) end
    end
  end

  -- Reads how many jobs of keys run, as far as it is not known.
  local function read_counts(names)
    local unknown = {}
    for i = 1, #names do
      if not counts[names[i]] then unknown[#unknown + 1] = names[i] end
    end
    if #unknown == 0 then return end
    local found = redis.call('HMGET', busy, unpack(unknown))
    for i = 1, #unknown do
      counts[unknown[i]] = tonumber(found[i]) or 0
    end
  end

  local function change_counts(names)
    read_counts(names)
    local more, none = of('HSET', busy), of('HDEL', busy)
    for i = 1, #names do
      local key = names[i]
      local count = counts[key] + running[key]
      if count > 0 then
        add(more, key, text_of(count))
      else
        none[#none + 1] = key
      end
    end
  end

  -- Reads what all that was told depends on, and gathers what follows of it.
  local function read_all()
    local names, n = names_of(ended)
    if n > 0 then open_closed(names) end
    names, n = names_of(came)
    if n > 0 then make_gates(names) end
    names, n = names_of(running)
    if n > 0 then change_counts(names) end
    local by = behind
    if by ~= 0 then batch.later(function() redis.call('HINCRBY', KEY.meta, 'behind', by) end) end
    came, ended, running, counts, behind, is_noted = {}, {}, {}, {}, 0, false
  end

  local function note()
    if is_noted then return end
    is_noted = true
    batch.unread = read_all
  end

  local g = { open = open, closed = closed, lowest_turn = lowest_turn }

  -- The key of the order of ready jobs behind a gate.
  function g.place(key)
    return keys.prefix .. NAME.behind .. key
  end

  -- The same, to be written to: it is read first, so that a key of another type ends the script before it writes.
  function g.order(key)
    if not orders[key] then
      orders[key] = g.place(key)
      redis.call('ZCARD', orders[key])
    end
    return orders[key]
  end

  -- The key of a job that has one, in the long form of its record.
  function g.key_of(record)
    local last = records.content_end(record)
    if byte(record, RECORD.flags) % FLAGS.gate >= FLAGS.key then last = last - WIDTH.unique end
    return sub(record, last - byte(record, last), last - 1)
  end

  -- The member of a job in the order behind its gate (BEHIND).
  function g.member(id, record)
    return sub(record, RECORD.due, RECORD.seq_end) .. id .. records.kind_of(record)
  end

  -- How many jobs of these keys run.
  function g.running(names)
    read_counts(names)
    return counts
  end

  -- Counts ready jobs with a key.
  function g.count(by)
    note()
    behind = behind + by
  end

  function g.enter(id, record)
    add(of('ZADD', g.order(g.key_of(record))), 0 - read('>h', record, RECORD.priority), g.member(id, record))
    g.count(1)
  end

  function g.leave(id, record)
    add(of('ZREM', g.order(g.key_of(record))), g.member(id, record))
    g.count(-1)
  end

  -- A job of a key is ready.
  function g.came(key)
    note()
    came[key] = true
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
      running[key], ended[key] = (running[key] or 0) - 1, true
    end
    if to == STATE.ready then g.came(key) end
  end

  gates_made = g
  return g
end
