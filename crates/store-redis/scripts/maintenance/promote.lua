-- Moves jobs of one queue whose expiry has come to dead, and those whose time has come to ready. Clears the head of a line
-- that holds little but stale members, and forgets unique keys and records whose time is over.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2 most that expire, 3 most that become ready
-- Answers how many expired, how many are ready now, how many transfers to other queues wait here, the instant of the next
-- visit that is known to be needed ('': none is), then what others have to know: 1 if jobs have ended here, 1 if copies of
-- leases have run out here, 1 if the queue is not defined and holds nothing, not even a unique key or a record, and 1 if its
-- gates are to be compared with its jobs (maintenance/gates).

-- How many stale members a line may have, and how many members of one are looked at.
local STALE_MAX, MEMBERS_MAX = 1000, 250

-- How many unique keys and records are forgotten, and how long after the first one could be: no caller waits for that.
local KEYS_MAX, KEYS_LATER = 250, 60000000
local windows = keys.prefix .. NAME.windows
local RECORDS_MAX, RECORDS_LATER = 250, 60000000
local record_heads, record_expiry = keys.prefix .. NAME.records, keys.prefix .. NAME.record_expiry

-- How long after gates were compared with the jobs that is done again.
local SWEPT_AFTER = 60000000

-- What lives at the head of the line goes to the kind's zset.
local function clear_head(kind, key, stale)
  local turns, ids, passed = redis.call('LRANGE', key, 0, MEMBERS_MAX - 1), {}, 0
  for i, turn in ipairs(turns) do
    ids[i] = sub(turn, TURN.id)
  end
  local found, strange = {}, {}
  if #ids > 0 then found, strange = records.load(unpack(ids)) end
  for i, turn in ipairs(turns) do
    if strange[i] or found[i] and lines.stands_at(found[i], turn) then
      batch.add(kinds.zset(kind), 0, turn)
    else
      passed = passed + 1
    end
  end
  redis.call('LTRIM', key, #turns, -1)
  batch.write()
  lines.note_stale(kind, #turns == 0 and -stale or -passed)
end

-- Answers whether there was such a line: there may be more to clear.
local function clear_line()
  local counts = redis.call('HGETALL', keys.stale)
  for i = 1, #counts, 2 do
    local key, stale = keys.line(counts[i]), tonumber(counts[i + 1])
    if stale > STALE_MAX and 2 * stale > redis.call('LLEN', key) then
      clear_head(counts[i], key, stale)
      return true
    end
  end
  return false
end

-- When the first of an order is due.
local function first_score(key)
  return tonumber(redis.call('ZRANGE', key, '0', '0', 'WITHSCORES')[2]) or clock.NEVER_MICROS
end

-- What is seen beside the work. It comes last, and a key of another type in its way ends nothing; so with `forget_keys`
-- and `forget_records`.
local function look(transfers)
  local leases = redis.call('ZCARD', KEY.leases)
  local has_lost = leases > 0 and redis.call('ZCOUNT', KEY.leases, '-inf', clock.now) > 0
  local is_empty = leases + transfers + redis.call('HLEN', KEY.jobs) + redis.call('EXISTS', windows, record_heads) == 0
    and redis.call('HEXISTS', KEY.meta, 'version') == 0
  return has_lost, is_empty
end

-- Forgets unique keys whose time is over. Answers when there is more to forget.
local function forget_keys()
  local first = first_score(windows)
  if first <= clock.now then
    local forgotten = uniques().forget(KEYS_MAX)
    batch.write()
    if forgotten == KEYS_MAX then return clock.now end
    first = first_score(windows)
  end
  return first < clock.NEVER_MICROS and first + KEYS_LATER or first
end

-- Forgets records whose time is over. Answers when there is more to forget.
local function forget_records()
  local first = first_score(record_expiry)
  if first <= clock.now then
    local names = redis.call('ZRANGEBYSCORE', record_expiry, '-inf', clock.now_text, 'LIMIT', 0, RECORDS_MAX)
    redis.call('HLEN', record_heads)
    redis.call('ZREM', keys.prefix .. NAME.record_keys, unpack(names))
    redis.call('HDEL', keys.prefix .. NAME.record_values, unpack(names))
    redis.call('HDEL', record_heads, unpack(names))
    redis.call('ZREM', record_expiry, unpack(names))
    if #names == RECORDS_MAX then return clock.now end
    first = first_score(record_expiry)
  end
  return first < clock.NEVER_MICROS and first + RECORDS_LATER or first
end

-- When gates are to be compared with jobs: of queues that use keys, where jobs are ready or run.
local function sweep_at()
  local meta = redis.call('HMGET', KEY.meta, 'rules', 'c2', 'c3', 'swept')
  if (tonumber(meta[1]) or 0) < RULES.keys or (tonumber(meta[2]) or 0) + (tonumber(meta[3]) or 0) <= 0 then
    return clock.NEVER_MICROS
  end
  return meta[4] and math.min(tonumber(meta[4]), clock.now) + SWEPT_AFTER or clock.now
end

local has_cleared = clear_line()
local due = promotion()
local expired, promoted = due.expire(ARGV[2]), due.promote(ARGV[3])
local transfers = redis.call('XLEN', KEY.transfers)
local next = math.min(first_score(KEY.expiring), first_score(KEY.scheduled))
local has_forgotten, keys_end = pcall(forget_keys)
if has_forgotten then next = math.min(next, keys_end) end
local has_records, records_end = pcall(forget_records)
if has_records then next = math.min(next, records_end) end
if has_cleared or expired > 0 or transfers > 0 then
  -- What expired may have left places in a line; transfers wait until a round has delivered them.
  next = clock.now
end
local is_read, sweep = pcall(sweep_at)
local is_to_sweep = is_read and sweep <= clock.now
if is_read then next = math.min(next, is_to_sweep and clock.now + SWEPT_AFTER or sweep) end
local has_ended = redis.call('EXISTS', KEY.completed, KEY.dead, KEY.cancelled) > 0
local looked, has_lost, is_empty = pcall(look, transfers)
return { expired, promoted, transfers, next < clock.NEVER_MICROS and string.format('%.0f', next) or '', has_ended and 1 or 0,
  looked and has_lost and 1 or 0, looked and is_empty and 1 or 0, is_to_sweep and 1 or 0 }
