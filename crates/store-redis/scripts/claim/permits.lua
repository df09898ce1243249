-- The rate of keys: what it permits each key, as claim/rates says it of a queue, of which this has the arithmetic. What was
-- spent is one value by key (PERMITS); when all of it has come back it can be forgotten, which each claim does with some.
-- `of` makes what the rate is to the key that has spent this: `left` and `more_at` as there, `spend(jobs)`, and `kept()`, what
-- to keep of it and until when. Made only where keys have a rate.
-- Needs: keys, clock, batch, rates.
local function permits(rate)
  -- How many keys one script forgets.
  local FORGOTTEN_MAX = 250
  local now, all = clock.now, rates()
  local spent, back = keys.prefix .. NAME.permits, keys.prefix .. NAME.permits_back

  local function bucket(stored)
    local full_at = nil
    local r = all.bucket(rate, stored and read('>I8', stored), function(full) full_at = full end)
    function r.kept() return pack('>I8', full_at), full_at end
    return r
  end

  -- The first and the last of the entries that are still out, how many permits they have together, and the entries.
  local function still_out(stored)
    local out, at = read('>I8', stored), PERMITS.back
    while at < #stored do
      local back_at, jobs = read('>I8I8', stored, at)
      if back_at > now then break end
      out, at = out - jobs, at + SPENT.jobs_end
    end
    return math.max(0, out), sub(stored, at)
  end

  local function window(stored)
    local out, entries = 0, ''
    if stored then out, entries = still_out(stored) end
    local r = { left = math.max(0, rate.jobs - out), more_at = #entries > 0 and read('>I8', entries) or nil }
    local back_at

    function r.spend(jobs)
      back_at = all.back_at(rate)
      local more, last = jobs, #entries - SPENT.jobs_end
      if last >= 0 and read('>I8', entries, last + SPENT.back) == back_at then
        more = more + read('>I8', entries, last + SPENT.jobs)
        entries = sub(entries, 1, last)
      end
      entries, out = entries .. pack('>I8I8', back_at, more), out + jobs
      r.left, r.more_at = math.max(0, rate.jobs - out), read('>I8', entries)
    end

    function r.kept() return pack('>I8', out) .. entries, back_at end
    return r
  end

  return {
    -- What the rate is to each of these keys.
    of = function(of_keys)
      local found = redis.call('HMGET', spent, unpack(of_keys))
      for i = 1, #of_keys do
        found[i] = rate.shape == 'bucket' and bucket(found[i]) or window(found[i])
      end
      return found
    end,

    -- Keeps what a key has spent.
    keep = function(key, permits_of_key)
      local stored, until_when = permits_of_key.kept()
      batch.add(batch.of('HSET', spent), key, stored)
      batch.add(batch.of('ZADD', back), string.format('%.0f', until_when), key)
    end,

    -- Forgets keys of which nothing is out.
    forget = function()
      local gone = redis.call('ZRANGEBYSCORE', back, '-inf', clock.now_text, 'LIMIT', '0', FORGOTTEN_MAX)
      if #gone == 0 then return end
      redis.call('HDEL', spent, unpack(gone))
      redis.call('ZREM', back, unpack(gone))
    end,
  }
end
