-- Changes records of one queue and accepts jobs for it, all or nothing.
-- KEYS: those of the queue.
-- ARGV: 1-9 as those of jobs/enqueue, 10 how many changes (shared/remembered), 11- these, then the jobs (shared/packed).
-- Answer: as that of jobs/enqueue, and {'conflict', i, version of what is there or ''}: the i-th record is not as expected.
local number = tonumber(ARGV[10])
remembered.begin(11, number)
packed.begin(11 + 3 * number)

local beside = { write = remembered.write }

function beside.refuse()
  for i = 1, number do
    local is_refused, version = remembered.refuses(i)
    if is_refused then return { 'conflict', i, version } end
  end
  for i = 1, number do
    remembered.change(i)
  end
end

-- Records alone: no call is remembered, and they need no job to make the queue known.
local function write_records()
  local meta = redis.call('HMGET', KEY.meta, 'version', 'seq')
  local is_known = meta[1] or meta[2] or redis.call('EXISTS', remembered.heads) == 1
  if not is_known and ARGV[6] == '' then
    return { 'unentered' }
  end
  local refused = beside.refuse()
  if refused then return refused end
  beside.write()
  return { 'ok', '', is_known and 0 or 1 }
end

if packed.number == 0 then
  return write_records()
elseif packed.are_given then
  return enqueue(beside)
end
return run_or_undo(function() return enqueue(beside) end, function(answer) return answer[1] == 'ok' end, packed.discard)
