-- Tells whether jobs would be accepted, and changes nothing.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 version of the definition that the jobs were judged by, 3- jobs (shared/packed).
-- Answer: {'stale'}: judged by another definition; {'whole'}: payloads have to be given, for a job is there already;
--   {'ok', answers}: a byte for each job: 'n' new, 'l' new but too large, 'd' another job holds its unique key,
--   't' its id is taken by another job, 'u' by one that is strange, else it is there: its state; after them, for each 'd', the
--   id of the holder and '-'; then how many jobs wait here.
if (redis.call('HGET', KEY.meta, 'version') or '0') ~= ARGV[2] then
  return { 'stale' }
end
packed.begin(3)
local there, strange = packed.there()
-- Jobs of the call that would be stored, by id, if any has a unique key: another one may have the same key, or the same id.
local answers, holders, entered = {}, {}, nil

-- Tells of a new job whether it would be stored.
local function new(id, head, content, body)
  if packed.is_keyed then
    local before = #content - WIDTH.unique
    local digest = sub(content, before + UNIQUE.digest, before + UNIQUE.digest_end)
    local holder = uniques().holder_of(digest)
    if holder then
      holders[#holders + 1] = holder .. '-'
      return 'd'
    end
    entered = entered or {}
    uniques().take(id, digest, content, before, clock.now)
  end
  if entered then entered[id] = { head = head, content = content, body = body } end
  return 'n'
end

for i = 1, packed.number do
  local id, head, content, is_large, body = packed.job(i)
  local record, before = there[i], entered and entered[id]
  if before then
    answers[i] = packed.is_same(id, nil, head, content, body, before) and char(STATE.ready) or 't'
  elseif strange[i] then
    answers[i] = 'u'
  elseif not record then
    answers[i] = is_large and 'l' or new(id, head, content, body)
  elseif body == true then
    return { 'whole' }
  elseif packed.is_same(id, record, head, content, body) then
    answers[i] = char(byte(record))
  else
    answers[i] = 't'
  end
end
local waiting = 0
for _, count in ipairs(redis.call('HMGET', KEY.meta, 'c0', 'c1', 'c2')) do
  waiting = waiting + (tonumber(count) or 0)
end
return { 'ok', table.concat(answers) .. table.concat(holders), waiting }
