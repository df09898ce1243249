-- Hands out ready jobs of one queue, after what has expired or is due was moved.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 lease, 3 nonce (8 bytes), 4 label with its length, 5 how many jobs, 6 how many bytes of payload,
--   7 how many of those are taken already, 8 '1' if the next job is taken whatever its size,
--   9 how many expired and how many due jobs to move at most, 10 '1' to take although more are due, 11- kinds.
-- Answer: {'lost'}: the lease has run out; {'more', expired}: so many were moved, more are there, none was taken;
--   {'jobs', expired, micros until the next is due or -1, version of the definition, why it ended (1 a payload did not
--   fit, 2 so many stale members were passed that more jobs may follow, else 0), {id, record, ...}, {payloads that stand
--   apart}, how many jobs of any kind were ready before, how many strange ones were met}. Records are in the long form or
--   in that of a first attempt.
local lease_until = redis.call('ZSCORE', LEASES, ARGV[2])
if not lease_until or tonumber(lease_until) <= now then
  return { 'lost' }
end
local most, expired = tonumber(ARGV[9]), 0
local expiring_first = first_score(EXPIRING)
if expiring_first and expiring_first <= now then
  expired = expire(most)
  expiring_first = first_score(EXPIRING)
  if expiring_first and expiring_first <= now then
    return { 'more', expired }
  end
end
local due_first = first_score(SCHEDULED)
if due_first and due_first <= now then
  promote(most)
  due_first = first_score(SCHEDULED)
  if due_first and due_first <= now and ARGV[10] ~= '1' then
    return { 'more', expired }
  end
end
local next_due = due_first and math.max(0, due_first - now) or -1
local limit = tonumber(ARGV[5])

-- Where ready jobs of the kinds stand: lines and zsets that hold something. They are exact if no member is stale: in a zset
-- that is one whose job was taken from the same place in the line, where it was counted as stale.
local sources = {}
for i = 11, limit > 0 and #ARGV or 10 do
  local kind = ARGV[i]
  local is_in_line, is_in_zset = redis.call('LLEN', line_key(kind)) > 0, redis.call('ZCARD', ready_key(kind)) > 0
  local is_exact = (is_in_line or is_in_zset) and redis.call('HEXISTS', STALE, kind) == 0
  if is_in_line then
    sources[#sources + 1] = { key = line_key(kind), kind = kind, is_line = true, is_exact = is_exact, read = 0 }
  end
  if is_in_zset then
    sources[#sources + 1] = { key = ready_key(kind), kind = kind, is_exact = is_exact, read = 0 }
  end
end
-- Whether places come from one source, in the order in which it has them.
local is_one = #sources == 1

-- The next members of a source, and whether there may be more.
local function next_members(source, size, with_scores)
  local from, upto, members = source.read, source.read + size - 1, nil
  if source.is_line then
    members = redis.call('LRANGE', source.key, from, upto)
  elseif with_scores then
    members = redis.call('ZRANGE', source.key, from, upto, 'WITHSCORES')
  else
    members = redis.call('ZRANGE', source.key, from, upto)
  end
  local count = with_scores and not source.is_line and #members / 2 or #members
  source.read = from + count
  return members, count == size
end

-- Goes to the next place of a source that is merged with others; false if there is none. A source is read in pieces, as
-- far as it is needed. Seq, which no two jobs share, comes as a number.
local function advance(source)
  local step = source.is_line and 1 or 2
  source.at = (source.at or 1 - step) + step
  if source.piece == nil or source.at > #source.piece then
    if source.piece and not source.has_more then return false end
    source.size = source.size and math.min(2 * source.size, 512) or 16
    source.piece, source.has_more = next_members(source, source.size, true)
    source.at = 1
    if #source.piece == 0 then return false end
  end
  source.member = source.piece[source.at]
  source.score = source.is_line and 0 or tonumber(source.piece[source.at + 1])
  source.due, source.seq = read('>I8I8', source.member)
  return true
end

local function is_before(a, b)
  if a.score ~= b.score then return a.score < b.score end
  if a.due ~= b.due then return a.due < b.due end
  return a.seq < b.seq
end

if not is_one then
  for _, source in ipairs(sources) do
    advance(source)
  end
end

-- The next places in the order of their turns, at most so many, and the source of each unless there is one only.
local function next_places(most)
  if is_one then
    local members, has_more = next_members(sources[1], most, false)
    return members, nil, has_more
  end
  local members, origins = {}, {}
  while #sources > 0 and #members < most do
    local best = 1
    for i = 2, #sources do
      if is_before(sources[i], sources[best]) then best = i end
    end
    local source, n = sources[best], #members + 1
    members[n], origins[n] = source.member, source
    if not advance(source) then table.remove(sources, best) end
  end
  return members, origins, #sources > 0
end

local LOOKED_AT_MAX = 1000
-- The score of strange jobs, behind that of any priority: however many there are, they stand before none that can be taken.
local BEHIND = 65536
local find = string.find
local bytes, taken, is_untouched = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8] == '1'
local claimed, label = ARGV[3] .. ARGV[2] .. now8, ARGV[4]
local claim, first = claimed .. label, string.char(S_FIRST) .. claimed
local jobs, started, apart, passed, ended = {}, {}, {}, {}, 0
-- Members of strange jobs, which stay, and whether one of them has to go behind; and how many stale members were passed.
local kept = { is_moved = false, stale = 0 }
local n, looked_at, has_more = 0, 0, #sources > 0
local origin, counter, id_before, counters_before, start
while has_more and ended == 0 and n < limit do
  if looked_at >= LOOKED_AT_MAX then
    ended = (n > 0 or kept.stale > 0 or kept.is_moved) and 2 or 0
    break
  end
  local members, origins
  members, origins, has_more = next_places(math.min(limit - n, LOOKED_AT_MAX - looked_at))
  local ids = {}
  for i = 1, #members do
    ids[i] = sub(members[i], 17)
  end
  looked_at = looked_at + #ids
  local records = #ids > 0 and redis.call('HMGET', JOBS, unpack(ids)) or {}
  for i = 1, #ids do
    local record, id, member = records[i], ids[i], members[i]
    local tag = record and byte(record, 1) or 0
    local payload, becomes
    if origins and origins[i] ~= origin or not origin then
      origin = origins and origins[i] or sources[1]
      counter = passed[origin] or { places = 0, stale = 0 }
      passed[origin] = counter
    end
    -- One that stands in a line and in a zset at the same place is met twice in a row.
    if tag == S_FRESH and id ~= id_before and #record > 32 then
      -- Where nothing is stale, a fresh record is that of this place.
      if origin.is_exact or find(record, sub(member, 1, 16), 2, true) == 2 then
        payload = read('>I4', record, 20)
        if payload <= INLINE_MAX then
          becomes = first .. sub(record, 2) .. label
        else
          becomes = '30' .. FIRST .. sub(record, 2, 19) .. ZERO8 .. sub(record, 2, 9) .. ZERO8 .. sub(record, 20) .. claim
        end
      end
    elseif record and id ~= id_before then
      record = expand(record)
      if not record then
        kept[#kept + 1] = { ready_key(origin.kind), BEHIND, member }
        kept.is_moved = kept.is_moved or origin.is_line or tonumber(redis.call('ZSCORE', origin.key, member)) ~= BEHIND
      elseif stands_at(record, member) then
        local counters, v = sub(record, 4, 31), nil
        if counters ~= counters_before then
          local attempt, others, fence = read('>I4c16I8', counters)
          start = '30-' .. pack('>I4', math.min(attempt + 1, 4294967295)) .. others .. pack('>I8', fence + 1)
          counters_before = counters
        end
        payload, v = read('>I4I4', record, 74)
        becomes = start .. sub(record, 32, 85 + v) .. claim
      end
    end
    if becomes then
      taken = taken + payload
      if taken > bytes and not is_untouched then
        ended = 1
        break
      end
      is_untouched, id_before = false, id
      if expiring_first and tag ~= S_FRESH and may_expire(record) then
        add(batch('ZREM', EXPIRING), id)
      end
      n = n + 1
      started[n] = id
      jobs[2 * n - 1] = id
      jobs[2 * n] = becomes
      if payload > INLINE_MAX then
        apart[#apart + 1] = id
      end
    elseif record or not records[i] then
      counter.stale, kept.stale = counter.stale + 1, kept.stale + 1
    end
    counter.places = counter.places + 1
  end
end
local bodies = #apart > 0 and redis.call('HMGET', BODIES, unpack(apart)) or {}
local meta = redis.call('HMGET', META, 'version', 'c2')

if n > 0 or kept.stale > 0 or kept.is_moved then
  local running = lease_key('running:', ARGV[2])
  redis.call('SCARD', running)
  for source, counter in pairs(passed) do
    if counter.places > 0 and source.is_line then
      redis.call('LTRIM', source.key, counter.places, -1)
      if counter.stale > 0 then note_stale(source.kind, -counter.stale) end
    elseif counter.places > 0 then
      redis.call('ZREMRANGEBYRANK', source.key, 0, counter.places - 1)
    end
  end
  for _, each in ipairs(kept) do
    redis.call('ZADD', unpack(each))
  end
  if n > 0 then
    redis.call('HSET', JOBS, unpack(jobs))
    redis.call('SADD', running, unpack(started))
    count(S_READY, -n)
    count(S_RUNNING, n)
    write()
  end
end
return { 'jobs', expired, next_due, meta[1] or '0', ended, jobs, bodies, meta[2] or '0', #kept }
