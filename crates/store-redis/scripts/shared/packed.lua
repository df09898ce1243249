-- Jobs that are handed in, as packed.rs packs them: ARGV[at] how many, n; after it how many runs of jobs in a row that have
-- their head in common, and letters: 'g' if payloads are given; of jobs that have unique keys, 'r' if an id or a unique key may
-- stand twice, and 't' if a key is held for a time; for each run the HEAD and how many jobs it has; then n ids, n contents, and
-- the payloads that are too long for the content, in order.
-- A server takes ten times as long for a payload that passes through a script. Where they are many bytes they are not
-- given: to a script that accepts jobs they were written before, in the same transaction; a check does without.
-- Needs: keys, records. `begin` comes first and says where they begin.
local packed = (function()
  -- Whether the jobs of the run have a unique key; whether an id or a key may stand twice, and whether a key is held for a time.
  local p = { is_keyed = false, has_repeats = false, has_timed = false }
  -- Ids come after ARGV[first].
  local begins_at, first, next_body, next_run, left_of_run, head, is_apart, is_large

  function p.begin(at)
    local letters = ARGV[at + 2]
    begins_at, p.number, p.are_given = at, tonumber(ARGV[at]), find(letters, 'g', 1, true) ~= nil
    p.has_repeats, p.has_timed = find(letters, 'r', 1, true) ~= nil, find(letters, 't', 1, true) ~= nil
    next_run, left_of_run = at + 3, 0
    first = at + 2 + 2 * ARGV[at + 1]
    next_body = first + 2 * p.number + 1
  end

  -- The key that jobs of a head take turns by, and what happens where another one holds their unique key (CONFLICT); nil for
  -- what they do not have.
  function p.keys_of(head)
    local at, key = HEAD.kind_length_end + byte(head, HEAD.kind_length), nil
    if byte(head, at + GATE.mark) == byte('g') then
      local last = at + GATE.length_end + byte(head, at + GATE.length)
      key, at = sub(head, at + GATE.key, last), last
    end
    return key, #head > at and sub(head, at + 1) or nil
  end

  local function has_unique(head)
    local _, conflict = p.keys_of(head)
    return conflict ~= nil
  end

  -- The records under the ids that are handed in, and those that are strange.
  function p.there()
    return records.load(unpack(ARGV, first + 1, first + p.number))
  end

  -- The digests of all unique keys that are handed in; and the same by the places of their jobs.
  function p.digests()
    local argv, by_place, digests, n, run, place, content = ARGV, {}, {}, 0, begins_at + 3, 0, first + p.number
    while run < first do
      local jobs = tonumber(ARGV[run + 1])
      if has_unique(ARGV[run]) then
        n = n + jobs
        for i = place + 1, place + jobs do
          by_place[i] = sub(argv[content + i], -WIDTH.unique, UNIQUE.digest_end - WIDTH.unique - 1)
        end
      end
      run, place = run + 2, place + jobs
    end
    -- Mostly all jobs have one.
    if n == p.number then return by_place, by_place end
    for i = 1, p.number do
      if by_place[i] then digests[#digests + 1] = by_place[i] end
    end
    return digests, by_place
  end

  -- Id, head and content of a job, whether it is above the cap and, if its payload stands apart, that, or true if it is
  -- not given. To be asked once for each, in order.
  function p.job(i)
    if left_of_run == 0 then
      head, left_of_run = ARGV[next_run], tonumber(ARGV[next_run + 1])
      next_run, is_apart = next_run + 2, read('>I4', head, HEAD.payload) > MAX.inline
      is_large = sub(head, HEAD.is_large, HEAD.is_large_end) == '1'
      p.is_keyed = #head > HEAD.kind_length_end + byte(head, HEAD.kind_length) and has_unique(head)
    end
    left_of_run = left_of_run - 1
    local id, content = ARGV[first + i], ARGV[first + p.number + i]
    if not is_apart then
      return id, head, content, is_large
    end
    next_body = next_body + 1
    return id, head, content, is_large, not p.are_given or ARGV[next_body - 1]
  end

  -- The run that comes next, if its jobs fit and have nothing that stands apart: head, how many jobs, and the places in ARGV
  -- before their first id and content. `pass_run` if they were taken; else they are asked for one by one.
  function p.run(i)
    local next_head = left_of_run == 0 and ARGV[next_run]
    if not next_head or read('>I4', next_head, HEAD.payload) > MAX.inline
      or sub(next_head, HEAD.is_large, HEAD.is_large_end) == '1' then
      return nil
    end
    return next_head, tonumber(ARGV[next_run + 1]), first + i - 1, first + p.number + i - 1
  end

  function p.pass_run()
    next_run = next_run + 2
  end

  -- Whether the payload of a job was written before, as long as its head says.
  function p.is_written(id, head)
    return redis.call('HSTRLEN', KEY.bodies, id) == read('>I4', head, HEAD.payload)
  end

  -- Removes payloads that were written before the script, but for those of jobs that are there, which were not written
  -- over. Where a record does not read, what stands under its id may be the payload of its job.
  function p.discard()
    p.begin(begins_at)
    local there, strange = p.there()
    for i = 1, p.number do
      local id, _, _, _, body = p.job(i)
      local length = there[i] and read('>I4', there[i], RECORD.payload) or 0
      local is_theirs = length > MAX.inline and redis.call('HSTRLEN', KEY.bodies, id) == length
      if body and not strange[i] and not is_theirs then
        redis.call('HDEL', KEY.bodies, id)
      end
    end
  end

  -- Whether the job that has the id is the one that is handed in: kind and payload are the same. Either its record is given,
  -- or what was handed in before it in the same call: head, content and payload.
  function p.is_same(id, record, head, content, body, before)
    local payload4 = before and sub(before.head, HEAD.payload, HEAD.payload_end)
      or sub(record, RECORD.payload, RECORD.payload_end)
    if payload4 ~= sub(head, HEAD.payload, HEAD.payload_end) then
      return false
    end
    local compared = CONTENT.kind_length_end + byte(content) + (body and 0 or read('>I4', head, HEAD.payload))
    local same = before and sub(before.content, 1, compared) or sub(record, RECORD.content, RECORD.block_end + compared)
    if same ~= sub(content, 1, compared) then
      return false
    end
    return not body or (before and before.body or redis.call('HGET', KEY.bodies, id)) == body
  end

  return p
end)()
