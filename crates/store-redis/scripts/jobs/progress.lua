-- Stores what running attempts of one queue report of themselves, each only if its fence holds.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 version of the definition that the reports were judged by, 3 how many; then so many ids, fences
--   (number, nonce) and reports: '1' if it is above the cap, else '0' and the report.
-- Answer: {'stale'}: judged by another definition; {'ok', answers}: a byte for each: 'a' applied, 'f' fenced,
--   'l' too large.
if (redis.call('HGET', KEY.meta, 'version') or '0') ~= ARGV[2] then
  return { 'stale' }
end
local n, answers = tonumber(ARGV[3]), {}
local found = records.load(unpack(ARGV, 4, 3 + n))
local reports = batch.of('HSET', KEY.progress)
for i = 1, n do
  local record, said = found[i], ARGV[3 + 2 * n + i]
  answers[i] = 'f'
  if record and byte(record) == STATE.running and records.fence_of(record) == ARGV[3 + n + i] then
    if byte(said) == byte('1') then
      answers[i] = 'l'
    else
      answers[i] = 'a'
      batch.add(reports, ARGV[3 + i], sub(said, REPORT.report))
    end
  end
end
batch.write_anyway()
return { 'ok', table.concat(answers) }
