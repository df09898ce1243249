-- Sets the definition of a queue. A program that wrote by the one before is told so by its version.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2 definition as JSON, 3 the newest rule that it uses, 4 '1' if the caller has entered the queue in this call,
--   5 the version that the definition before must have ('0': there is none), or '' if it may have any
-- Answers {'ok', 1 if jobs have ended there, which it may keep no longer, 1 if the queue was not there}; {'unentered'}: the
-- queue has to be entered first; {'rules', rule}: the queue uses a rule that this program does not know; {'stale'}: it has
-- another version. To define a queue as it is changes nothing.

local known = redis.call('HMGET', KEY.meta, 'version', 'config', 'seq', 'rules')
local before, rules = tonumber(known[4]) or 0, tonumber(ARGV[3])
-- A queue goes on to use keys: its jobs may stand behind gates.
if before >= RULES.keys then rules = math.max(rules, before) end

-- The rate of a queue and that of its keys, as texts; nothing of a definition that does not read.
local function rates_of(text)
  local is_read, config = pcall(cjson.decode, text or '{}')
  if not is_read or type(config) ~= 'table' then return nil, nil end
  local function said(rate)
    if type(rate) ~= 'table' then return 'none' end
    return string.format('%s %s %s %s', tostring(rate.jobs), string.format('%.0f', tonumber(rate.per) or 0),
      tostring(rate.shape), tostring(rate.burst))
  end
  return said(config.rate), said(type(config.keys) == 'table' and config.keys.rate)
end

-- What a definition says of keys: how many may run at once, and their pauses.
local function keys_of(text)
  local is_read, config = pcall(cjson.decode, text or '{}')
  if not is_read or type(config) ~= 'table' then return nil, {} end
  local of_keys, pauses = type(config.keys) == 'table' and config.keys or {}, type(config.pauses) == 'table' and config.pauses or {}
  return tostring(of_keys.concurrency), type(pauses.keys) == 'table' and pauses.keys or {}
end

-- The time of gates has come that are closed and may give more by now; the next claims open them. All of them where the rules
-- for keys have changed, else those whose pause has.
local function hasten_gates(is_other_rate)
  local closed = keys.prefix .. NAME.closed
  if before < RULES.keys or redis.call('EXISTS', closed) == 0 then return end
  local most_before, paused_before = keys_of(known[2])
  local most, paused = keys_of(ARGV[2])
  if is_other_rate or not most or most ~= most_before then
    redis.call('ZUNIONSTORE', closed, 1, closed, 'WEIGHTS', 0)
    return
  end
  local function until_of(pause)
    return type(pause) == 'table' and tostring(pause['until']) or ''
  end
  for key, pause in pairs(paused) do
    if until_of(pause) ~= until_of(paused_before[key]) then redis.call('ZADD', closed, 'XX', 0, key) end
  end
  for key in pairs(paused_before) do
    if not paused[key] then redis.call('ZADD', closed, 'XX', 0, key) end
  end
end

if before > RULES.known then
  return { 'rules', known[4] }
elseif ARGV[5] ~= '' and (known[1] or '0') ~= ARGV[5] then
  return { 'stale' }
elseif known[1] and known[2] == ARGV[2] and before == rules then
  return { 'ok', 0, 0 }
elseif not (known[1] or known[3]) and ARGV[4] == '' then
  return { 'unentered' }
end
-- Versions grow with the time: a program may know one of a queue that was removed since, or that a server has lost.
local version = string.format('%.0f', math.max((tonumber(known[1]) or 0) + 1, clock.real))
redis.call('HSET', KEY.meta, 'version', version, 'config', ARGV[2], 'rules', rules)
local rate_before, of_keys_before = rates_of(known[2])
local rate, of_keys = rates_of(ARGV[2])
if rate == 'none' or rate ~= rate_before then
  redis.call('HDEL', KEY.meta, 'spent', 'full')
  redis.call('UNLINK', keys.spent())
end
if of_keys ~= of_keys_before then
  redis.call('UNLINK', keys.prefix .. NAME.permits, keys.prefix .. NAME.permits_back)
end
hasten_gates(of_keys ~= of_keys_before)
return { 'ok', redis.call('EXISTS', KEY.completed, KEY.dead, KEY.cancelled) > 0 and 1 or 0,
  (known[1] or known[3]) and 0 or 1 }
