-- Compares gates with the jobs of one queue that uses keys, a bounded part at a time, and mends what does not agree.
--
-- KEYS those of the queue
-- ARGV 1 clock
-- Answers how many ready jobs stood behind no gate, how many counts of running jobs were wrong, how many gates were closed for
-- no reason, and 1 if this was the last part. When it was and where it goes on is kept in META.

-- How many blocks of ids, and how many closed gates, one script looks at; how many running jobs it counts at most.
local BLOCKS_MAX, CLOSED_MAX, RUNNING_MAX, READ_AT_ONCE = 4, 250, 2000, 1000
local g = gates()
local meta = redis.call('HMGET', KEY.meta, 'sweep', 'c3', 'uncounted')
local seq, passed = string.match(meta[1] or '', '^(%d+) (%d+)$')
local busy, made, counted, opened = keys.prefix .. NAME.busy, 0, 0, 0

-- Calls `each` with id and record of those jobs that have a key and are in a state, and `strange`, if given, for those that are
-- not there or whose form is not known here.
local function gated(ids, state, each, strange)
  for from = 1, #ids, READ_AT_ONCE do
    local found = redis.call('HMGET', KEY.jobs, unpack(ids, from, math.min(from + READ_AT_ONCE - 1, #ids)))
    for i = 1, #found do
      local record = found[i] and records.expand(found[i])
      if record and byte(record) == state and byte(record, RECORD.flags) >= FLAGS.gated then
        each(ids[from + i - 1], record)
      elseif strange and not record then
        strange()
      end
    end
  end
end

-- Has every ready job of some blocks stand behind a gate. Answers where the next blocks begin, nil if there are none.
local function look_at_ready()
  local found = redis.call('ZRANGEBYSCORE', KEY.blocks, '(' .. (seq or '0'), '+inf', 'WITHSCORES', 'LIMIT', '0', BLOCKS_MAX)
  local ids, names, of_key = {}, {}, {}
  for i = 1, #found, 2 do
    local block = redis.call('GET', keys.block(found[i])) or ''
    for at = 1, #block, WIDTH.id do
      ids[#ids + 1] = sub(block, at, at + WIDTH.id - 1)
    end
  end
  gated(ids, STATE.ready, function(id, record)
    local key = g.key_of(record)
    if not of_key[key] then
      of_key[key], names[#names + 1] = {}, key
    end
    local jobs = of_key[key]
    jobs[#jobs + 1] = { id = id, record = record }
  end)
  if #names > 0 then
    local open, closed = redis.call('ZMSCORE', g.open, unpack(names)), redis.call('ZMSCORE', g.closed, unpack(names))
    for i, key in ipairs(names) do
      local has_gate = open[i] or closed[i]
      for _, job in ipairs(of_key[key]) do
        local order, member = g.order(key), g.member(job.id, job.record)
        local has_place = redis.call('ZSCORE', order, member)
        if not has_place then batch.add(batch.of('ZADD', order), 0 - read('>h', job.record, RECORD.priority), member) end
        if not (has_gate and has_place) then
          made = made + 1
          g.came(key)
        end
      end
    end
  end
  return #found == 2 * BLOCKS_MAX and found[#found] or nil
end

-- Has the counts of running jobs be those of the jobs that hang on leases. Not where these are too many, where they are others
-- than the queue counts, or where a newer program has written one: then it is not known what is wrong.
local function look_at_running()
  local running = tonumber(meta[2]) or 0
  if running > RUNNING_MAX or redis.call('HLEN', busy) > RUNNING_MAX then return end
  local ids, counts, uncounted, is_known = {}, {}, 0, true
  for _, lease in ipairs(redis.call('ZRANGE', KEY.leases, '0', '-1')) do
    if #ids > RUNNING_MAX then return end
    for _, id in ipairs(redis.call('SMEMBERS', keys.of_lease('running:', lease))) do
      ids[#ids + 1] = id
    end
  end
  if #ids ~= running then return end
  gated(ids, STATE.running, function(_, record)
    local key = g.key_of(record)
    if byte(record, RECORD.flags) < FLAGS.uncounted then
      counts[key] = (counts[key] or 0) + 1
    else
      uncounted = uncounted + 1
    end
  end, function() is_known = false end)
  if not is_known then return end
  if uncounted ~= (tonumber(meta[3]) or 0) then
    counted = counted + 1
    batch.later(function() redis.call('HSET', KEY.meta, 'uncounted', uncounted) end)
  end
  local kept = redis.call('HGETALL', busy)
  for i = 1, #kept, 2 do
    local key = kept[i]
    local count = counts[key] or 0
    counts[key] = nil
    if count ~= tonumber(kept[i + 1]) then
      counted = counted + 1
      if count > 0 then
        batch.add(batch.of('HSET', busy), key, text_of(count))
      else
        batch.add(batch.of('HDEL', busy), key)
      end
    end
  end
  for key, count in pairs(counts) do
    counted = counted + 1
    batch.add(batch.of('HSET', busy), key, text_of(count))
  end
end

-- Lets gates be opened by the next claim that are closed although neither a pause nor a limit keeps them so. Answers how many
-- to pass next time, nil if there are no more.
local function look_at_closed()
  local rules, skip = heed_rules(0, #ARGV + 1), tonumber(passed) or 0
  local names = redis.call('ZRANGE', g.closed, skip, skip + CLOSED_MAX - 1)
  if #names == 0 or not rules then return nil end
  local of = rules.keys
  local running, permitted = of.concurrency and g.running(names), of.rate and permits(of.rate).of(names)
  local untils = redis.call('ZMSCORE', g.closed, unpack(names))
  for i, key in ipairs(names) do
    local is_due = tonumber(untils[i]) <= clock.now
    local is_full = running and running[key] >= of.concurrency or permitted and permitted[i].left == 0
    if not (is_due or is_full or of.paused[key]) then
      opened = opened + 1
      batch.add(batch.of('ZADD', g.closed), '0', key)
    end
  end
  return #names == CLOSED_MAX and skip + CLOSED_MAX or nil
end

local next_seq, next_passed
-- Counts come first: what they are decides whether a gate is closed for a reason.
if not seq then
  look_at_running()
  batch.write()
end
if not seq or tonumber(seq) > 0 then next_seq = look_at_ready() end
if not seq or tonumber(passed) > 0 then next_passed = look_at_closed() end
batch.write_anyway()
redis.call('HSET', KEY.meta, 'swept', clock.now_text)
if next_seq or next_passed then
  redis.call('HSET', KEY.meta, 'sweep', (next_seq or '0') .. ' ' .. (next_passed or '0'))
else
  redis.call('HDEL', KEY.meta, 'sweep')
end
return { made, counted, opened, (next_seq or next_passed) and 0 or 1 }
