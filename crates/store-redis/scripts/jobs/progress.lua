-- Stores what running attempts of one queue report of themselves, each only if its fence holds.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 version of the definition that the reports were judged by, 3 how many; then so many ids, fences
--   (number, nonce) and reports: '1' if it is above the cap, else '0' and the report.
-- Answer: {'stale'}: judged by another definition; {'ok', answers}: a byte for each: 'a' applied, 'f' fenced,
--   'l' too large.
if (redis.call('HGET', META, 'version') or '0') ~= ARGV[2] then
  return { 'stale' }
end
local n, answers = tonumber(ARGV[3]), {}
local records = load_records(unpack(ARGV, 4, 3 + n))
local reports = batch('HSET', PROGRESS)
for i = 1, n do
  local record, said = records[i], ARGV[3 + 2 * n + i]
  answers[i] = 'f'
  if record and byte(record, 1) == S_RUNNING then
    local v = v_end(record)
    if sub(record, 24, 31) .. sub(record, v + 1, v + 8) == ARGV[3 + n + i] then
      if byte(said, 1) == 49 then
        answers[i] = 'l'
      else
        answers[i] = 'a'
        add(reports, ARGV[3 + i], sub(said, 2))
      end
    end
  end
end
write_anyway()
return { 'ok', table.concat(answers) }
