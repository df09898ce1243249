-- How many jobs of each key run is counted only where the concurrency of keys can bind: where as many jobs of the queue may run as
-- one key may have. Jobs that start meanwhile say that they are not counted (FLAGS.uncount), and `uncounted` in META is how many of
-- those run. Before counts are needed again these are counted, a bounded number by a script; until that is over no job with a key
-- starts. `counting` in META is how far that is: where the scan of a lease goes on, and the leases that were looked at, that one
-- last. Made only where a queue has keys.
-- Needs: keys, records, gates.
local function counting(concurrency, running, limit, uncounted, progress)
  -- How many jobs one script looks at, and how many one page of a scan has, about.
  local LOOKED_AT_MAX, PAGE = 1000, 250
  local c, busy = {}, keys.prefix .. NAME.busy

  -- Whether jobs that start in this claim are counted.
  c.is_needed = concurrency ~= nil and (progress ~= nil or running + limit >= concurrency)

  -- What becomes of a record whose job is counted from now on, and its key; nothing if it is counted, or has no key.
  local function counted(stored)
    local record = stored and records.expand(stored)
    if not record or byte(record) ~= STATE.running or byte(record, RECORD.flags) < FLAGS.uncounted then return nil end
    local becomes = byte(stored) >= FORM.brief and char(byte(stored) - FORM.brief_uncounted) .. sub(stored, FIRST.nonce)
      or char(byte(stored), byte(record, RECORD.flags) - FLAGS.uncount) .. sub(stored, RECORD.reason)
    return becomes, gates().key_of(record)
  end

  -- Counts those of these jobs that are not. Answers how many these were.
  local function count_page(ids)
    if #ids == 0 then return 0 end
    local jobs, by_key, more, n = {}, {}, {}, 0
    for i, stored in ipairs(redis.call('HMGET', KEY.jobs, unpack(ids))) do
      local becomes, key = counted(stored)
      if becomes then
        n = n + 1
        jobs[2 * n - 1], jobs[2 * n], by_key[key] = ids[i], becomes, (by_key[key] or 0) + 1
      end
    end
    if n == 0 then return 0 end
    for key, number in pairs(by_key) do
      more[#more + 1] = { key, number + (tonumber(redis.call('HGET', busy, key)) or 0) }
    end
    -- A removal first: a server whose memory is full takes what follows one.
    redis.call('HDEL', KEY.jobs, '')
    redis.call('HSET', KEY.jobs, unpack(jobs))
    for _, each in ipairs(more) do
      redis.call('HSET', busy, each[1], text_of(each[2]))
    end
    redis.call('HINCRBY', KEY.meta, 'uncounted', -n)
    return n
  end

  -- Counts all that run and are not counted. Answers whether that is over.
  function c.catch_up()
    if not c.is_needed or not progress and uncounted <= 0 then
      if progress then redis.call('HDEL', KEY.meta, 'counting') end
      return true
    end
    local blank = progress and find(progress, ' ', 1, true)
    local cursor, seen, looked = progress and sub(progress, 1, blank - 1) or '0', progress and sub(progress, blank + 1) or '', 0
    local done = {}
    for at = 1, #seen, WIDTH.id do
      done[sub(seen, at, at + WIDTH.id - 1)] = true
    end
    -- Looks at the jobs of a lease from the cursor on, at one page at least. Answers whether these are all.
    local function look_at(lease)
      repeat
        local page = redis.call('SSCAN', keys.of_lease('running:', lease), cursor, 'COUNT', PAGE)
        count_page(page[2])
        cursor, looked = page[1], looked + #page[2] + 1
      until cursor == '0' or looked >= LOOKED_AT_MAX
      return cursor == '0'
    end
    local is_over = cursor == '0' or look_at(sub(seen, -WIDTH.id))
    for _, lease in ipairs(redis.call('ZRANGE', KEY.leases, '0', '-1')) do
      if not done[lease] then
        if looked >= LOOKED_AT_MAX then is_over = false end
        if not is_over then break end
        seen = seen .. lease
        is_over = look_at(lease)
      end
    end
    if is_over then
      redis.call('HDEL', KEY.meta, 'counting', 'uncounted')
    else
      redis.call('HDEL', KEY.meta, '')
      redis.call('HSET', KEY.meta, 'counting', cursor .. ' ' .. seen)
    end
    return is_over
  end

  return c
end
