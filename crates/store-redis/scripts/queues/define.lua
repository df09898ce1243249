-- Sets the definition of a queue. A program that wrote by the one before is told so by its version.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2 definition as JSON, 3 the newest rule that it uses, 4 '1' if the caller has entered the queue in this call,
--   5 the version that the definition before must have ('0': there is none), or '' if it may have any, 6 what the definition
--   says of its rate, or '': one that the definition before does not say begins anew
-- Answers {'ok', 1 if jobs have ended there, which it may keep no longer, 1 if the queue was not there}; {'unentered'}: the
-- queue has to be entered first; {'rules', rule}: the queue uses a rule that this program does not know; {'stale'}: it has
-- another version. To define a queue as it is changes nothing.

local known = redis.call('HMGET', KEY.meta, 'version', 'config', 'seq', 'rules')
if (tonumber(known[4]) or 0) > RULES.known then
  return { 'rules', known[4] }
elseif ARGV[5] ~= '' and (known[1] or '0') ~= ARGV[5] then
  return { 'stale' }
elseif known[1] and known[2] == ARGV[2] and (known[4] or '0') == ARGV[3] then
  return { 'ok', 0, 0 }
elseif not (known[1] or known[3]) and ARGV[4] == '' then
  return { 'unentered' }
end
-- Versions grow with the time: a program may know one of a queue that was removed since, or that a server has lost.
local version = string.format('%.0f', math.max((tonumber(known[1]) or 0) + 1, clock.real))
redis.call('HSET', KEY.meta, 'version', version, 'config', ARGV[2], 'rules', ARGV[3])
if ARGV[6] == '' or not find(known[2] or '', ARGV[6], 1, true) then
  redis.call('HDEL', KEY.meta, 'spent', 'full')
  redis.call('UNLINK', keys.spent())
end
return { 'ok', redis.call('EXISTS', KEY.completed, KEY.dead, KEY.cancelled) > 0 and 1 or 0,
  (known[1] or known[3]) and 0 or 1 }
