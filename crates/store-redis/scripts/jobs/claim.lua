-- Hands out ready jobs of one queue, after what has expired or is due was moved.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 lease, 3 nonce (8 bytes), 4 label with its length, 5 how many jobs, 6 how many bytes of payload,
--   7 how many of those are taken already, 8 '1' if the next job is taken whatever its size,
--   9 how many expired and how many due jobs to move at most, 10 '1' to take although more are due, 11- kinds.
-- Answer: {'lost'}: the lease has run out; {'more', expired}: so many were moved, more are there, none was taken;
--   {'jobs', expired, micros until the next is due or -1, version of the definition, now, 1 if a payload did not fit,
--   {id, record, ...}, {payloads that stand apart}}.
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

-- Whose turn it is: ids in order, and of which kind (by its place) each is.
local ids, kind_at, keys = {}, nil, {}
for i = 11, limit > 0 and #ARGV or 10 do
  keys[#keys + 1] = ready_key(ARGV[i])
end
if #keys == 1 then
  for i, member in ipairs(redis.call('ZRANGE', keys[1], 0, limit - 1)) do
    ids[i] = sub(member, 17)
  end
elseif #keys > 1 then
  -- Each kind's order is read in pieces, as far as it is needed. Seq, which no two jobs share, comes as a number.
  local PIECE = 16
  local heads = {}
  local function advance(head)
    local at = head.at + 2
    if at > #head.piece then
      if #head.piece < 2 * head.size then return false end
      local from = head.from + head.size
      head.size = math.min(2 * head.size, 512)
      head.piece = redis.call('ZRANGE', head.key, from, from + head.size - 1, 'WITHSCORES')
      head.from, at = from, 1
      if #head.piece == 0 then return false end
    end
    head.at = at
    head.score = tonumber(head.piece[at + 1])
    head.due, head.seq = read('>I8I8', head.piece[at])
    return true
  end
  local function is_before(a, b)
    if a.score ~= b.score then return a.score < b.score end
    if a.due ~= b.due then return a.due < b.due end
    return a.seq < b.seq
  end
  for i, key in ipairs(keys) do
    local piece = redis.call('ZRANGE', key, 0, PIECE - 1, 'WITHSCORES')
    if #piece > 0 then
      local head = { key = key, kind = i, piece = piece, size = PIECE, from = 0, at = -1 }
      advance(head)
      heads[#heads + 1] = head
    end
  end
  kind_at = {}
  while #heads > 0 and #ids < limit do
    local best = 1
    for i = 2, #heads do
      if is_before(heads[i], heads[best]) then best = i end
    end
    local head, n = heads[best], #ids + 1
    ids[n], kind_at[n] = sub(head.piece[head.at], 17), head.kind
    if not advance(head) then table.remove(heads, best) end
  end
end

local records = #ids > 0 and redis.call('HMGET', JOBS, unpack(ids)) or {}
local bytes, taken, is_untouched = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8] == '1'
local claim = ARGV[3] .. ARGV[2] .. now8 .. ARGV[4]
local jobs, started, apart, passed, is_full = {}, {}, {}, {}, 0
local counters_before, start
for i = 1, #ids do
  local record, id = records[i], ids[i]
  if record and byte(record, 1) == S_READY then
    local payload, v = read('>I4I4', record, 74)
    taken = taken + payload
    if not is_untouched and taken > bytes then
      is_full = 1
      break
    end
    is_untouched = false
    local counters = sub(record, 4, 31)
    if counters ~= counters_before then
      local attempt, others, fence = read('>I4c16I8', counters)
      start = '30-' .. pack('>I4', math.min(attempt + 1, 4294967295)) .. others .. pack('>I8', fence + 1)
      counters_before = counters
    end
    if expiring_first and may_expire(record) then
      add(batch('ZREM', EXPIRING), id)
    end
    local n = #started + 1
    started[n] = id
    jobs[2 * n - 1] = id
    jobs[2 * n] = start .. sub(record, 32, 85 + v) .. claim
    if payload > INLINE_MAX then
      apart[#apart + 1] = id
    end
  end
  -- A place whose job is gone, or is elsewhere, is passed too.
  local kind = kind_at and kind_at[i] or 1
  passed[kind] = (passed[kind] or 0) + 1
end
local bodies = #apart > 0 and redis.call('HMGET', BODIES, unpack(apart)) or {}
local version = redis.call('HGET', META, 'version') or '0'

if next(passed) then
  local running = lease_key('running:', ARGV[2])
  redis.call('SCARD', running)
  for kind, places in pairs(passed) do
    redis.call('ZREMRANGEBYRANK', keys[kind], 0, places - 1)
  end
  if #started > 0 then
    redis.call('HSET', JOBS, unpack(jobs))
    redis.call('SADD', running, unpack(started))
    count(S_READY, -#started)
    count(S_RUNNING, #started)
    write()
  end
end
return { 'jobs', expired, next_due, version, now, is_full, jobs, bodies }
