-- Tells whether jobs would be accepted, and changes nothing.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 version of the definition that the jobs were judged by, 3- jobs (shared/packed).
-- Answer: {'stale'}: judged by another definition; {'whole'}: payloads have to be given, for a job is there already;
--   {'ok', answers}: a byte for each job: 'n' new, 'l' new but too large,
--   't' its id is taken by another job, 'u' by one that is strange, else it is there: its state.
if (redis.call('HGET', KEY.meta, 'version') or '0') ~= ARGV[2] then
  return { 'stale' }
end
packed.begin(3)
local there, strange = packed.there()
local answers = {}
for i = 1, packed.number do
  local id, head, content, is_large, body = packed.job(i)
  local record = there[i]
  if strange[i] then
    answers[i] = 'u'
  elseif not record then
    answers[i] = is_large and 'l' or 'n'
  elseif body == true then
    return { 'whole' }
  elseif packed.is_same(id, record, head, content, body) then
    answers[i] = char(byte(record))
  else
    answers[i] = 't'
  end
end
return { 'ok', table.concat(answers) }
