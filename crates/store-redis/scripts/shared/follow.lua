-- What attempts of one queue write: jobs and records, and their ends if they end; of each attempt everything or nothing, one
-- after the other. Jobs for other queues go into the stream of transfers.
-- ARGV: outcomes (shared/outcomes), of which some say that their attempt goes on; the last argument says where the rest
--   begins: FOLLOWING of each attempt, in one text; how many changes of records, and these (shared/remembered); how many arguments
--   transfers take, and these: target and number of parts, and of each part the place of its attempt, the form of its jobs (a
--   byte), their offsets, the jobs, and their payloads that stand apart; then jobs for this queue (shared/packed).
-- Needs: all that jobs/enqueue and jobs/settle have, remembered, posts.
local follow = (function()
  local rest = tonumber(ARGV[#ARGV])
  local following, changes = ARGV[rest], tonumber(ARGV[rest + 1])
  local sent_at = rest + 2 + 3 * changes
  local sent = tonumber(ARGV[sent_at])
  -- By place among all jobs: what was handed in. By id: the place of a job that was accepted. By id, too: what became of jobs
  -- that were there (conflicts.lua).
  local ids, heads, contents, larges, bodies, entered, moved = {}, {}, {}, {}, {}, {}, {}
  local there, strange, is_new = {}, {}, {}
  -- How many jobs and records those before have.
  local jobs_before, records_before = 0, 0
  local has_followed, block = {}, nil

  local f = {}

  -- A job as another one was handed in before under its id.
  local function handed_in(id)
    local place = entered[id]
    if place then return { head = heads[place], content = contents[place], body = bodies[place] } end
    return accept.conflicts and accept.conflicts.replaced_by(id)
  end

  -- Why a job is refused: 't' its id is taken by another job, 'u' by one that is strange, 'g' it is too large, 'w' payloads have
  -- to be given; nil if it is not.
  local function refused_job(i)
    local id, body, before, record = ids[i], bodies[i], handed_in(ids[i]), there[i]
    if moved[id] == false then record = false end
    is_new[i] = false
    if body == true and (before or record or strange[i] or not packed.is_written(id, heads[i])) then
      return 'w'
    elseif before then
      return not packed.is_same(id, nil, heads[i], contents[i], body, before) and 't' or nil
    elseif strange[i] then
      return 'u'
    elseif record then
      return not packed.is_same(id, record, heads[i], contents[i], body) and 't' or nil
    elseif larges[i] then
      return 'g'
    end
    is_new[i] = true
  end

  -- Why what follows an attempt is refused: 'x' for what the program knows, as above, or 'c' for a record that is not as
  -- expected; then which of its jobs or records, and the version of the record that is there.
  local function refused(is_known, jobs, changed)
    if is_known then return 'x' end
    for i = 1, jobs do
      local why = refused_job(jobs_before + i)
      if why then return why, i end
    end
    for i = 1, changed do
      local is_refused, version = remembered.refuses(records_before + i)
      if is_refused then return 'c', i, version end
    end
  end

  local function accept_job(i)
    local id, body, is_written = ids[i], bodies[i], bodies[i] == true
    -- Another one of the attempt may have had the same id, and was not stored if it met the holder of its key.
    if not is_new[i] or entered[id] then return end
    local said = accept.job(id, heads[i], contents[i], not is_written and body or nil, i)
    if said ~= 'd' and said ~= 'p' then
      entered[id] = i
    elseif is_written then
      batch.add(batch.of('HDEL', KEY.bodies), id)
    end
  end

  function f.begin()
    packed.begin(sent_at + 1 + sent)
  end

  -- Reads what is known of jobs and records, all at once.
  function f.read()
    remembered.begin(rest + 2, changes)
    accept.moved = moved
    if packed.number > 0 then
      there, strange = packed.there()
      local meta = redis.call('HMGET', KEY.meta, 'seq', 'block')
      block = meta[2]
      accept.begin(meta[1], block, clock.now, clock.real, 0)
    end
    for i = 1, packed.number do
      ids[i], heads[i], contents[i], larges[i], bodies[i] = packed.job(i)
    end
  end

  -- The record of an attempt's job as it is by now, if an attempt before this one has replaced it.
  function f.replaced(id)
    return accept.conflicts and accept.conflicts.replaced(id)
  end

  -- Tells of the i-th attempt, of this job, whether its right holds and whether it is followed. `finish` writes its end, and
  -- answers what is answered for it, 'l' if its output is refused, and what its job became. Answers that and '1' if it was
  -- followed, else '0'; and where it is refused by which job or record, and the version of that record.
  function f.write(i, id, is_held, is_followed, finish)
    local at = (i - 1) * FOLLOWING.records_end
    local jobs, changed = read('>I4I4', following, at + FOLLOWING.jobs)
    local answer, place, version, becomes = not is_held and 'f' or nil, nil, nil, nil
    if is_held and is_followed then
      answer, place, version = refused(byte(following, at + FOLLOWING.is_refused) == byte('1'), jobs, changed)
    end
    if not answer then
      answer, becomes = finish()
      if becomes ~= nil then moved[id] = becomes end
      if is_followed and answer ~= 'l' then
        for j = jobs_before + 1, jobs_before + jobs do
          accept_job(j)
        end
        for j = records_before + 1, records_before + changed do
          remembered.change(j)
        end
        has_followed[i] = true
      end
    end
    jobs_before, records_before = jobs_before + jobs, records_before + changed
    return answer .. (has_followed[i] and '1' or '0'), place, version
  end

  -- The content of a transfer, of the parts whose attempt is followed; nil if none is. Answers where the next one begins, too.
  local function content(at)
    local form, offsets, jobs, payloads = 0, {}, {}, {}
    for part = at + 2, at + 1 + 5 * ARGV[at + 1], 5 do
      if has_followed[tonumber(ARGV[part])] then
        form = math.max(form, byte(ARGV[part + 1]))
        offsets[#offsets + 1], jobs[#jobs + 1], payloads[#payloads + 1] = ARGV[part + 2], ARGV[part + 3], ARGV[part + 4]
      end
    end
    local next, all = at + 2 + 5 * ARGV[at + 1], table.concat(offsets)
    if #all == 0 then return nil, next end
    return BYTES.enqueues .. pack('>I4', #all) .. all .. char(form) .. pack('>I4', #all / WIDTH.u32) .. table.concat(jobs)
      .. table.concat(payloads), next
  end

  -- Writes everything; a removal first if an attempt has ended.
  function f.finish(has_ended)
    local at, posted = sent_at + 1, {}
    while at <= sent_at + sent do
      local said, next = content(at)
      if said then posted[#posted + 1] = { ARGV[at], said } end
      at = next
    end
    if #posted > 0 then
      local meta = redis.call('HMGET', KEY.meta, 'seq', 'transfers')
      posts.begin(meta[1], meta[2])
    end
    -- More than this call adds.
    if accept.conflicts then uniques().forget(2 * packed.number) end
    batch.prepare()
    if has_ended then redis.call('HDEL', KEY.jobs, '') end
    if remembered.is_changed then remembered.write() end
    for _, each in ipairs(posted) do
      posts.post(each[1], 'content', each[2])
    end
    if #posted > 0 then posts.finish() end
    if accept.number() > 0 or accept.conflicts then
      accept.write(block)
    else
      batch.write()
    end
    blocks.write_released()
  end

  return f
end)()
