-- Hands out ready jobs of one queue, after what has expired or is due was moved.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 lease, 3 nonce (8 bytes), 4 label with its length, 5 how many jobs, 6 how many bytes of payload,
--   7 how many of those are taken already, 8 '1' if the next job is taken whatever its size,
--   9 how many expired and 10 how many due jobs to move at most, 11 how many jobs can begin at once,
--   12 how many open gates scripts of this claim have asked in vain that stand there still, 13 and how many in all, 14- kinds.
-- Answer: {'lost'}: the lease has run out; {'more', expired}: so many were moved, more have expired, none was taken;
--   {'rules', expired, rule}: the queue uses a rule that this program does not know, none was taken;
--   {'unreadable', expired}: it has rules and its definition does not read, none was taken;
--   {'jobs', expired, micros until the next is due, or rules may leave more, or -1, version of the definition, why it ended
--   (claim/take), {id, record, ...}, {payloads that stand apart}, whether jobs may have been ready before: how many of any kind
--   that have no key, and one more if a gate is open; 0 if rules leave none, how many strange ones were met, 1 if the queue has
--   limits, 2 if these are far (core: AMPLE), what the next script of this claim gets as 12, and as 13}.
--   Records are in the long form, as it is stored, or in that of a first attempt.
-- What one script does at most, so that it holds the server for a few milliseconds: a job that is moved or taken counts one,
-- and so do some sources that have to be merged, from so many on. Below that a second script, which has to merge them again, would
-- cost more than it spares. A few jobs are taken in any case; the caller comes again for more.
local WORK_MAX, SOURCES_FREE, SOURCES_OF_ONE, TAKEN_MIN = 500, 1024, 4, 64
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

local meta = redis.call('HMGET', KEY.meta, 'version', 'c2', 'rules', 'parked', 'behind', 'c3', 'uncounted', 'counting')
local rule = tonumber(meta[3]) or 0
if rule > RULES.known then
  return { 'rules', expired, meta[3] }
end
-- Jobs that are ready and stand behind no gate, and all that a claim may find.
local plain_ready = (tonumber(meta[2]) or 0) - (tonumber(meta[5]) or 0)
local ready, taken, rules, asked, from, open = plain_ready, nil, nil, ARGV, 14, nil
local limits = 0
if rule > 0 then
  rules = heed_rules(tonumber(ARGV[11]), from)
  if not rules then return { 'unreadable', expired } end
  if rules.is_limited then limits = (limit == 0 or rules.room < RULES.ample * limit) and 1 or 2 end
  limit, asked, from = math.min(limit, rules.left), rules.kinds, rules.from
  if #asked < from then ready = 0 end
  if rules.aging then aged(rules.aging) end
end
if rule >= RULES.keys then
  open = turns(tonumber(ARGV[12]), tonumber(ARGV[13]))
  open.open_due()
  if rules.keys.rate then permits(rules.keys.rate).forget() end
  if #asked >= from and open.has_open() then ready = ready + 1 end
end
if rules and rules.left == 0 then ready = 0 end

-- Takes jobs with a key, after all that run are counted, if they have to be. Answers why no more.
local function take_turns(wanted, most)
  local of, running = rules.keys, tonumber(meta[6]) or 0
  local counts = counting(of.concurrency, running, wanted, tonumber(meta[7]) or 0, meta[8] or nil)
  if not counts.catch_up() then return 2 end
  gates().is_counting = counts.is_needed
  -- No key has more running jobs than the queue.
  if of.concurrency and not counts.is_needed then of.room = of.concurrency - running end
  return take_keyed(wanted, most, of, open, asked, from)
end

-- Takes jobs without a key, at most so many. Answers why no more, as claim/take.
local function take_keyless(wanted)
  find_sources(asked, from, plain_ready)
  if aged_made then aged_made.split() end
  if sources.number == 0 or wanted == 0 then return 0 end
  local merged = math.max(0, sources.number - SOURCES_FREE)
  local work = expired + promoted + math.floor(merged / SOURCES_OF_ONE) + room().number
  taken = take(wanted, math.max(WORK_MAX - work, TAKEN_MIN))
  return taken.ended
end

local ended = 0
if limit > 0 then
  if meta[4] and tonumber(meta[4]) > 0 then parked().put_back(limit, asked, from) end
  if not open then
    ended = take_keyless(limit)
  elseif #asked >= from then
    -- Those without a key come first where the nonce is even. The second part has what the first has left, unless that has more
    -- to give. Where all kinds are paused, no gate has to be asked.
    local is_even = byte(ARGV[3], WIDTH.nonce) % 2 == 0
    if is_even then ended = take_keyless(limit) end
    if ended < 2 then
      local most = math.max(WORK_MAX - expired - promoted - room().number, TAKEN_MIN)
      ended = math.max(ended, take_turns(limit - room().number, most))
    end
    if not is_even and ended == 0 then ended = take_keyless(limit - room().number) end
  end
end
if open and limits == 2 and rules.keys.is_near ~= false then limits = 1 end
if sources.empty then batch.give('SREM', keys.kinds, sources.empty) end
local took = (taken or open) and room() or { number = 0, jobs = {} }
local bodies = took.apart and redis.call('HMGET', KEY.bodies, unpack(took.apart)) or {}
if took.number > 0 then
  redis.call('SCARD', keys.of_lease('running:', lease))
  moves.start(lease, took.ids, took.jobs, took.keyed, took.gated)
end
-- What of the batch is still to be read is read before anything is taken away.
batch.prepare()
for source, turns_passed in pairs(taken and taken.passed or {}) do
  if turns_passed > 0 then sources.trim(source, turns_passed, taken.stale[source]) end
end
batch.write()
local strange = taken and taken.strange or 0
if strange > 0 then redis.call('HINCRBY', KEY.meta, 'parked', strange) end
if rules then
  rules.spend(took.number)
  next_due = rules.until_next(next_due, open and open.next_open())
end
return { 'jobs', expired, next_due, meta[1] or '0', ended, took.jobs, bodies, ready, strange, limits, open and open.passed or 0,
  open and open.looked or 0 }
