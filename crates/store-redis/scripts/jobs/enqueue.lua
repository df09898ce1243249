-- Accepts jobs of one queue: all of them or none. From a transfer, those whose id is free.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 version of the definition that the jobs were judged by ('' for a transfer),
--   3 queue that the transfer came from ('' if it is none), 4 the transfer's number, 5 seq and 6 instant of its acceptance,
--   7 how far each of its jobs is from that seq (4 bytes each; '' for one after the other), 8 the call (shared/call; ''
--   for a transfer), 9- jobs (shared/accept).
-- Answer: {'stale'}: judged by another definition; {'known'}: the transfer was applied before; {'repeated'}: the call was;
--   {'taken', i}, {'strange', i}, {'large', i}: the i-th job is refused, and so are all;
--   {'ok', answers}: a byte for each job: 'r' now ready, 's' now scheduled, else it was there: its state, and 't' from
--   a transfer if it is another job.
local source, transfer = ARGV[3], tonumber(ARGV[4])
local meta = redis.call('HMGET', META, 'version', 'seq', 'block')
if source == '' then
  if (meta[1] or '0') ~= ARGV[2] then
    return { 'stale' }
  end
elseif tonumber(redis.call('HGET', RECEIVED, source) or 0) >= transfer then
  return { 'known' }
end
begin_jobs(9)
local there, strange = records_there()

-- Where the next job goes in the order of acceptance.
local accepted = source == '' and now or tonumber(ARGV[6])
local accepted8, offsets, last_seq = instant(accepted), ARGV[7], nil
-- Places are counted from the first job of the call, which may have gone to another queue or by an earlier transfer.
local passed = offsets == '' and 0 or read('>I4', offsets)
local seq = math.max((tonumber(meta[2]) or 0) + 1 - passed, source == '' and real or tonumber(ARGV[5]))
local block, filled = tonumber(meta[3]) or 0, BLOCK_MAX
if meta[3] then
  filled = redis.call('STRLEN', block_key(meta[3])) / 16
end
local block4, open_ids, opened = pack('>I4', block), {}, {}
local filling = { number = block, ids = open_ids }
opened[1] = filling

local jobs, bodies, expiring = batch('HSET', JOBS), batch('HSET', BODIES), batch('ZADD', EXPIRING)
local answers, n, entered = {}, 0, {}
-- What the newest head says.
local head_before, state, start, middle, places, score, due8, expires_at
-- Whether the line of a kind takes jobs that are ready now.
local lines = {}

local function takes(kind)
  if lines[kind] == nil then
    local last = redis.call('LINDEX', line_key(kind), -1)
    local due, place = 0, 0
    if last then due, place = read('>I8I8', last) end
    lines[kind] = due < accepted or (due == accepted and place < seq + passed)
  end
  return lines[kind]
end

local function read_head(head)
  local large, priority, _, _, form, delay, has_expiry, expiry = read('>c1hI4I4c1I8c1I8', head)
  local due, kind = accepted, sub(head, 31)
  if form == 'a' then
    due = accepted + delay
  elseif form == 't' then
    due = math.max(accepted, delay)
  end
  due8 = instant(due)
  state = due > accepted and S_SCHEDULED or S_READY
  expires_at = has_expiry == 'e' and accepted + expiry or nil
  local tag = SHORT + (state == S_READY and 1 or 4) + (expires_at and 2 or 0)
  start = string.char(tag) .. due8
  middle = sub(head, 2, 3) .. (state == S_READY and '' or accepted8) .. (expires_at and instant(expires_at) or '')
    .. sub(head, 4, 11)
  if state == S_SCHEDULED then
    places, score = batch('ZADD', SCHEDULED), string.format('%.0f', due)
  elseif priority == 0 and takes(kind) then
    places, score = batch('RPUSH', line_key(kind)), nil
  else
    places, score = batch('ZADD', ready_key(kind)), string.format('%d', -priority)
  end
  return large == '1'
end

-- A repeat is one also where its jobs would be refused by now.
local function refuse(word, i)
  return is_repeated(ARGV[8]) and { 'repeated' } or { word, i }
end

local is_large
for i = 1, number_of_jobs do
  local head, v, body = job_at(i)
  local id, record = ARGV[first + i], there[i]
  if record or strange[i] then
    if record and is_same(id, record, head, v, body) then
      answers[i] = sub(record, 1, 1)
    elseif source == '' then
      return refuse(record and 'taken' or 'strange', i)
    else
      answers[i] = 't'
    end
  else
    if head ~= head_before then
      is_large, head_before = read_head(head), head
    end
    if is_large and source == '' then
      return refuse('large', i)
    end
    if filled == BLOCK_MAX then
      block, filled = block + 1, 0
      block4, open_ids = pack('>I4', block), {}
      filling = { number = block, ids = open_ids }
      opened[#opened + 1] = filling
    end
    filled = filled + 1
    open_ids[#open_ids + 1] = id
    last_seq = seq + (offsets == '' and n or read('>I4', offsets, 4 * i - 3))
    filling.seq = filling.seq or last_seq
    local seq8 = pack('>I8', last_seq)
    n = n + 1
    jobs[2 * n - 1] = id
    jobs[2 * n] = start .. seq8 .. middle .. block4 .. v
    local at = #places
    if score then
      places[at + 1], at = score, at + 1
    end
    if state == S_READY then
      places[at + 1] = due8 .. seq8 .. id
      answers[i] = 'r'
    else
      places[at + 1] = seq8 .. id
      answers[i] = 's'
    end
    entered[state] = (entered[state] or 0) + 1
    if body then add(bodies, id, body) end
    if expires_at then add(expiring, string.format('%.0f', expires_at), id) end
  end
end

for each, jobs_entered in pairs(entered) do
  count(each, jobs_entered)
end
if n == 0 then
  -- Nothing grows but the memory of the call, which goes by itself: a removal first, and a full server takes it.
  redis.call('HDEL', JOBS, '')
end
-- The first write is one that a server without memory refuses.
if source ~= '' then
  redis.call('HSET', RECEIVED, source, ARGV[4])
elseif not remember_call(ARGV[8]) then
  return { 'repeated' }
end
if n > 0 then
  redis.call('HSET', META, 'seq', string.format('%.0f', last_seq), 'block', block)
  write()
  for _, each in ipairs(opened) do
    if #each.ids > 0 then
      redis.call('APPEND', block_key(each.number), table.concat(each.ids))
      if redis.call('HINCRBY', LIVE, each.number, #each.ids) == #each.ids then
        redis.call('ZADD', BLOCKS, 'NX', each.seq, each.number)
      end
    end
  end
  -- The block that was being filled may have lost all of its jobs meanwhile.
  if meta[3] and opened[2] and tonumber(redis.call('HGET', LIVE, meta[3]) or 0) <= 0 then
    drop_block(meta[3])
  end
end
return { 'ok', table.concat(answers) }
