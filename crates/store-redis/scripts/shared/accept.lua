-- Jobs that are handed in, as packed.rs packs them: ARGV[at] how many, n, and after it how many runs of jobs in a row
-- that have their head in common; for each run the head and how many jobs it has; then n ids, n contents, and the payloads
-- that are too long for the content, in order. A head:
--   1 '1' if the payload is above the queue's cap, 2-3 priority, 4-7 payload length, 8-11 length of the content,
--   12 due 'n'ow, 'a'fter or a't', 13-20 those micros, 21 'e' if it expires, 22-29 after how many micros,
--   30 length of kind, 31- kind.
-- Needs: keys, record. `begin_jobs` comes first and says where they begin; ids come after ARGV[first].
local first, number_of_jobs, next_body
local next_run, left_of_run, head, is_apart

local function begin_jobs(at)
  number_of_jobs = tonumber(ARGV[at])
  next_run, left_of_run = at + 2, 0
  first = at + 1 + 2 * ARGV[at + 1]
  next_body = first + 2 * number_of_jobs + 1
end

-- The records under the ids that are handed in, and those that are strange.
local function records_there()
  return load_records(unpack(ARGV, first + 1, first + number_of_jobs))
end

-- Head, content and, if it stands apart, payload of a job. To be asked once for each, in order.
local function job_at(i)
  if left_of_run == 0 then
    head, left_of_run = ARGV[next_run], tonumber(ARGV[next_run + 1])
    next_run, is_apart = next_run + 2, read('>I4', head, 4) > INLINE_MAX
  end
  left_of_run = left_of_run - 1
  local v = ARGV[first + number_of_jobs + i]
  if not is_apart then
    return head, v
  end
  next_body = next_body + 1
  return head, v, ARGV[next_body - 1]
end

-- Whether the job that has the id is the one that is handed in: kind and payload are the same.
local function is_same(id, record, head, v, body)
  local payload = read('>I4', head, 4)
  if sub(record, 74, 77) ~= sub(head, 4, 7) then
    return false
  end
  local compared = 1 + byte(v, 1) + (body and 0 or payload)
  if sub(record, 86, 85 + compared) ~= sub(v, 1, compared) then
    return false
  end
  return not body or redis.call('HGET', BODIES, id) == body
end
