-- Notes that the handlers of running attempts of one queue have begun, each only if its fence holds.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 how many, then so many ids (each once) and fences (number, nonce).
-- Answer: a byte for each: 'a' applied, 'f' fenced.
local n, answers, jobs = tonumber(ARGV[2]), {}, {}
local ONE8 = sub(FIRST, 22)
local records = redis.call('HMGET', JOBS, unpack(ARGV, 3, 2 + n))
for i = 1, n do
  local record, fence = records[i] or '', ARGV[2 + n + i]
  local tag, becomes, holds = byte(record, 1), nil, nil
  if tag == S_FIRST or tag == S_BEGUN then
    holds = ONE8 .. sub(record, 2, 9) == fence
    becomes = tag == S_FIRST and string.char(S_BEGUN) .. sub(record, 2)
  elseif tag == S_RUNNING and #record > 86 then
    local v, flags = v_end(record), byte(record, 2)
    holds = sub(record, 24, 31) .. sub(record, v + 1, v + 8) == fence
    becomes = flags % 4 < 2 and '3' .. string.char(flags + 2) .. sub(record, 3)
  end
  answers[i] = holds and 'a' or 'f'
  if holds and becomes then
    jobs[#jobs + 1], jobs[#jobs + 2] = ARGV[2 + i], becomes
  end
end
if #jobs > 0 then
  -- A removal first: a server whose memory is full takes what follows one.
  redis.call('HDEL', JOBS, '')
  redis.call('HSET', JOBS, unpack(jobs))
end
return table.concat(answers)
