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
  -- run changes, and how many run, where that was read. Then by how much the number of all that are ready changes, and of all
  -- that run and are not counted.
  local came, ended, running, counts, behind, uncounted, is_noted = {}, {}, {}, {}, 0, 0, false
  local orders, lowest, has_closed = {}, nil, nil

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
    for field, by in pairs({ behind = behind, uncounted = uncounted }) do
      if by ~= 0 then batch.later(function() redis.call('HINCRBY', KEY.meta, field, by) end) end
    end
    came, ended, running, counts, behind, uncounted, is_noted = {}, {}, {}, {}, 0, 0, false
  end

  local function note()
    if is_noted then return end
    is_noted = true
    batch.unread = read_all
  end

  -- Jobs that start are counted by their keys, unless a claim says otherwise (claim/counting).
  local g = { open = open, closed = closed, lowest_turn = lowest_turn, is_counting = true }

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
    if g.is_counting then
      running[key] = (running[key] or 0) + jobs
    else
      uncounted = uncounted + jobs
    end
  end

  -- One ready job of each of these keys starts, of which `running` was asked if they are counted.
  function g.started_each(names, number)
    g.count(-number)
    if not g.is_counting then
      uncounted = uncounted + number
      return
    end
    local busy_now, n = of('HSET', busy), 0
    for i = 1, number do
      local key = names[i]
      busy_now[n + 1], busy_now[n + 2], n = key, text_of(counts[key] + 1), n + 2
    end
  end

  -- So many jobs of a key run no longer.
  function g.ended(key, jobs)
    note()
    running[key], ended[key] = (running[key] or 0) - jobs, true
  end

  -- Whether an end may open a gate.
  function g.has_closed()
    if has_closed == nil then has_closed = redis.call('ZCARD', closed) > 0 end
    return has_closed
  end

  -- So many jobs run no longer that were not counted. The key is told where `has_closed`, and may be told any number of times.
  function g.ended_uncounted(jobs, key)
    note()
    uncounted = uncounted - jobs
    if key then ended[key] = true end
  end

  -- Told of a job with a key that goes from a state to another, or nowhere if it is removed. What starts is told by `started`.
  function g.moved(record, from, to)
    local key = g.key_of(record)
    if from == STATE.running then
      if byte(record, RECORD.flags) < FLAGS.uncounted then
        g.ended(key, 1)
      else
        g.ended_uncounted(1, key)
      end
    end
    if to == STATE.ready then g.came(key) end
  end

  gates_made = g
  return g
end
