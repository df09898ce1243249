-- Tells whether jobs would be accepted, and changes nothing.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 version of the definition that the jobs were judged by, 3- jobs (shared/accept).
-- Answer: {'stale'}: judged by another definition; {'ok', answers}: a byte for each job: 'n' new, 'l' new but too large,
--   't' its id is taken by another job, 'u' by one that is strange, else it is there: its state.
if (redis.call('HGET', META, 'version') or '0') ~= ARGV[2] then
  return { 'stale' }
end
begin_jobs(3)
local there, strange = records_there()
local answers = {}
for i = 1, number_of_jobs do
  local head, v, body = job_at(i)
  local record = there[i]
  if strange[i] then
    answers[i] = 'u'
  elseif not record then
    answers[i] = sub(head, 1, 1) == '1' and 'l' or 'n'
  elseif is_same(ARGV[first + i], record, head, v, body) then
    answers[i] = sub(record, 1, 1)
  else
    answers[i] = 't'
  end
end
return { 'ok', table.concat(answers) }
