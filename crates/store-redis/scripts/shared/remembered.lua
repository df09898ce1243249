-- Records: what the queue remembers beside its jobs, under keys (KEPT). Their heads stand in one hash, with values that are
-- short; longer ones stand apart, so that to look at a record costs little whatever it holds. An order by key is for lists, one
-- by instant for those that are gone by time.
-- Changes are three arguments each: CHANGE, key, value. What a script has changed counts for what it looks at later, and is
-- written in the end: only what each record came to.
-- Needs: keys, clock.
local remembered = (function()
  local heads, values = keys.prefix .. NAME.records, keys.prefix .. NAME.record_values
  local names, expiry = keys.prefix .. NAME.record_keys, keys.prefix .. NAME.record_expiry
  local ANY, NOTHING, PUT, TIMED = byte('a'), byte('n'), byte('p'), byte('e')
  local VALUES_MAX = 4000
  -- Changes come after this argument. By key: records as they were found, as they are from now on (false if they are gone),
  -- their values that stand apart, and when they are gone.
  local before, found, changed, apart, ends_at = 0, {}, {}, {}, {}
  local r = { heads = heads, values = values, names = names, expiry = expiry, is_changed = false, has_values = false }

  -- Reads what so many changes depend on, the first at this argument; also all that is written, so that a key of another type
  -- ends the script before.
  function r.begin(at, number)
    before = at - 1
    if number == 0 then return end
    local wanted = {}
    for i = 1, number do
      if byte(ARGV[before + 3 * i - 2], CHANGE.expect) ~= ANY then wanted[#wanted + 1] = ARGV[before + 3 * i - 1] end
    end
    for from = 1, #wanted, VALUES_MAX do
      local upto = math.min(from + VALUES_MAX - 1, #wanted)
      for i, record in ipairs(redis.call('HMGET', heads, unpack(wanted, from, upto))) do
        found[wanted[from + i - 1]] = record
      end
    end
    redis.call('HLEN', heads)
    redis.call('ZCARD', names)
    r.has_timed, r.has_values = redis.call('ZCARD', expiry) > 0, redis.call('HLEN', values) > 0
  end

  -- Whether the time of a record is over.
  function r.is_over(record)
    local expires8 = sub(record, KEPT.expires, KEPT.expires_end)
    return expires8 ~= BYTES.zero8 and read('>I8', expires8) <= clock.now
  end

  -- The version of what is there now, nil for nothing. A record that does not read has one that no change expects.
  local function version_of(key)
    local record = changed[key]
    if record == nil then record = found[key] end
    if not record then return nil end
    if #record < KEPT.length_end then return '' end
    return not r.is_over(record) and sub(record, KEPT.version, KEPT.version_end) or nil
  end

  -- Tells whether the i-th change is refused: true, and the version of what is there, '' for nothing.
  function r.refuses(i)
    local change = ARGV[before + 3 * i - 2]
    local expect = byte(change, CHANGE.expect)
    if expect == ANY then return false end
    local version = version_of(ARGV[before + 3 * i - 1])
    -- A put that finds its own version was made before.
    local is_own = byte(change, CHANGE.change) == PUT and version == sub(change, CHANGE.version, CHANGE.version_end)
    local is_met = is_own or expect == NOTHING and not version
      or expect ~= NOTHING and version == sub(change, CHANGE.expected, CHANGE.expected_end)
    return not is_met, version or ''
  end

  -- Makes the i-th change.
  function r.change(i)
    local change, key, value = ARGV[before + 3 * i - 2], ARGV[before + 3 * i - 1], ARGV[before + 3 * i]
    r.is_changed, changed[key], apart[key], ends_at[key] = true, false, nil, nil
    if byte(change, CHANGE.change) ~= PUT then return end
    local expires8 = BYTES.zero8
    if byte(change, CHANGE.expires) == TIMED then
      local expires = clock.expiry_after(read('>I8', change, CHANGE.micros))
      expires8, ends_at[key] = clock.instant(expires), string.format('%.0f', expires)
    end
    local is_apart = #value > MAX.inline
    if is_apart then apart[key] = value end
    changed[key] = sub(change, CHANGE.version, CHANGE.version_end) .. clock.now8 .. expires8 .. pack('>I4', #value)
      .. (is_apart and '' or value)
  end

  local function write_all(command, key, list)
    for from = 1, #list, VALUES_MAX do
      redis.call(command, key, unpack(list, from, math.min(from + VALUES_MAX - 1, #list)))
    end
  end

  -- Writes what has changed. What grows comes first: as the first write of a script it is refused by a server without memory.
  function r.write()
    local puts, long, named, timed, gone, short, untimed = {}, {}, {}, {}, {}, {}, {}
    for key, record in pairs(changed) do
      if record then
        puts[#puts + 1], puts[#puts + 2] = key, record
        named[#named + 1], named[#named + 2] = '0', key
      else
        gone[#gone + 1] = key
      end
      if apart[key] then
        long[#long + 1], long[#long + 2] = key, apart[key]
      else
        short[#short + 1] = key
      end
      if ends_at[key] then
        timed[#timed + 1], timed[#timed + 2] = ends_at[key], key
      else
        untimed[#untimed + 1] = key
      end
    end
    write_all('HSET', heads, puts)
    write_all('HSET', values, long)
    write_all('ZADD', names, named)
    write_all('ZADD', expiry, timed)
    write_all('HDEL', heads, gone)
    write_all('ZREM', names, gone)
    if r.has_values then write_all('HDEL', values, short) end
    if r.has_timed then write_all('ZREM', expiry, untimed) end
    changed, apart, ends_at = {}, {}, {}
  end

  return r
end)()
