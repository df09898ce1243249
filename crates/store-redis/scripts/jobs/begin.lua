-- Notes that the handlers of running attempts of one queue have begun, each only if its fence holds.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 how many, then so many ids (each once) and fences (number, nonce).
-- Answer: a byte for each: 'a' applied, 'f' fenced.
local n, answers, jobs = tonumber(ARGV[2]), {}, {}
local found = redis.call('HMGET', KEY.jobs, unpack(ARGV, 3, 2 + n))
for i = 1, n do
  local record, fence = found[i] or '', ARGV[2 + n + i]
  local form, becomes, holds = byte(record), nil, nil
  if form == FORM.first or form == FORM.begun then
    holds = BYTES.one8 .. sub(record, FIRST.nonce, FIRST.nonce_end) == fence
    becomes = form == FORM.first and char(FORM.begun) .. sub(record, FIRST.nonce)
  elseif form and form >= FORM.brief and form <= FORM.brief_end and form % 8 == STATE.running % 8 and #record > FIRST.content then
    holds = BYTES.one8 .. sub(record, FIRST.nonce, FIRST.nonce_end) == fence
    becomes = (form - FORM.brief) % FORM.brief_uncounted < FORM.brief_begun and char(form + FORM.brief_begun) .. sub(record, FIRST.nonce)
  elseif #record > RECORD.content and (form == STATE.running or form == STATE.running + FORM.keyed_offset
    or form == STATE.running + FORM.gated_offset) then
    local flags = byte(record, RECORD.flags)
    holds = records.fence_of(record) == fence
    becomes = flags % 4 < 2 and char(form, flags + 2) .. sub(record, RECORD.reason)
  end
  answers[i] = holds and 'a' or 'f'
  if holds and becomes then
    jobs[#jobs + 1], jobs[#jobs + 2] = ARGV[2 + i], becomes
  end
end
if #jobs > 0 then
  -- A removal first: a server whose memory is full takes what follows one.
  redis.call('HDEL', KEY.jobs, '')
  redis.call('HSET', KEY.jobs, unpack(jobs))
end
return table.concat(answers)
