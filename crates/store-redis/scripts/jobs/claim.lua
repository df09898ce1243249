-- Hands out ready jobs of one queue, after what has expired or is due was moved.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 lease, 3 nonce (8 bytes), 4 label with its length, 5 how many jobs, 6 how many bytes of payload,
--   7 how many of those are taken already, 8 '1' if the next job is taken whatever its size,
--   9 how many expired and 10 how many due jobs to move at most, 11 how many jobs can begin at once, 12- kinds.
-- Answer: {'lost'}: the lease has run out; {'more', expired}: so many were moved, more have expired, none was taken;
--   {'rules', expired, rule}: the queue uses a rule that this program does not know, none was taken;
--   {'unreadable', expired}: it has rules and its definition does not read, none was taken;
--   {'jobs', expired, micros until the next is due, or rules may leave more, or -1, version of the definition, why it ended
--   (claim/take), {id, record, ...}, {payloads that stand apart}, how many jobs of any kind were ready before, 0 if rules leave
--   none, how many strange ones were met}. Records are in the long form, as it is stored, or in that of a first attempt.
-- What one script does at most, so that it holds the server for a few milliseconds: a job that is moved or taken counts one,
-- and so do some sources that have to be merged. A few are taken in any case; the caller comes again for more.
local WORK_MAX, SOURCES_OF_ONE, TAKEN_MIN = 500, 4, 64
local now, lease, limit, expired, promoted, due = clock.now, ARGV[2], tonumber(ARGV[5]), 0, 0, nil

-- The score of the first in an order, if there is one.
local function first_score(key)
  return tonumber(redis.call('ZRANGE', key, '0', '0', 'WITHSCORES')[2])
end

local lease_until = redis.call('ZSCORE', KEY.leases, lease)
if not lease_until or tonumber(lease_until) <= now then
  return { 'lost' }
end
local expiring_first = first_score(KEY.expiring)
if expiring_first and expiring_first <= now then
  due = promotion()
  expired = due.expire(ARGV[9])
  expiring_first = first_score(KEY.expiring)
  if expiring_first and expiring_first <= now then
    return { 'more', expired }
  end
end
local due_first = first_score(KEY.scheduled)
if due_first and due_first <= now then
  due = due or promotion()
  promoted = due.promote(ARGV[10])
  due_first = first_score(KEY.scheduled)
end
local next_due = due_first and math.max(0, due_first - now) or -1

local meta = redis.call('HMGET', KEY.meta, 'version', 'c2', 'rules', 'parked')
if meta[3] and tonumber(meta[3]) > RULES.known then
  return { 'rules', expired, meta[3] }
end
local ready, taken, rules, asked, from = meta[2] or '0', nil, nil, ARGV, 12
if meta[3] and tonumber(meta[3]) > 0 then
  rules = heed_rules(tonumber(ARGV[11]), from)
  if not rules then return { 'unreadable', expired } end
  limit, asked, from = math.min(limit, rules.left), rules.kinds, rules.from
  if rules.left == 0 then ready = '0' end
end
if limit > 0 then
  if meta[4] and tonumber(meta[4]) > 0 then parked().put_back(limit, asked, from) end
  find_sources(asked, from, tonumber(ready))
  if sources.number > 0 then
    local work = expired + promoted + math.floor(sources.number / SOURCES_OF_ONE)
    taken = take(limit, math.max(WORK_MAX - work, TAKEN_MIN))
  end
end
if sources.empty then batch.give('SREM', keys.kinds, sources.empty) end
if not taken then
  batch.write()
  if rules then next_due = rules.until_next(next_due) end
  return { 'jobs', expired, next_due, meta[1] or '0', 0, {}, {}, ready, 0 }
end
local bodies = taken.apart and redis.call('HMGET', KEY.bodies, unpack(taken.apart)) or {}

redis.call('SCARD', keys.of_lease('running:', lease))
if #taken.ids > 0 then moves.start(lease, taken.ids, taken.jobs, taken.keyed) end
for source, turns in pairs(taken.passed) do
  if turns > 0 then sources.trim(source, turns, taken.stale[source]) end
end
batch.write()
if taken.strange > 0 then redis.call('HINCRBY', KEY.meta, 'parked', taken.strange) end
if rules then
  rules.spend(#taken.ids)
  next_due = rules.until_next(next_due)
end
return { 'jobs', expired, next_due, meta[1] or '0', taken.ended, taken.jobs, bodies, ready, taken.strange }
