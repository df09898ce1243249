-- Jobs that are handed in, as enqueue.rs packs them: from ARGV[FIRST + 1] on n ids, then n heads, then n times V, then
-- the payloads that are too long for V, in order. A head, which most jobs of a call share:
--   1 '1' if the payload is above the queue's cap, 2-3 priority, 4-7 payload length, 8-11 length of V,
--   12 due 'n'ow, 'a'fter or a't', 13-20 those micros, 21 'e' if it expires, 22-29 after how many micros,
--   30 length of kind, 31- kind.
-- Needs: keys, record. `begin_jobs` comes first and says what FIRST is.
local first, number_of_jobs, next_body

local function begin_jobs(at)
  first = at
  number_of_jobs = tonumber(ARGV[at])
  next_body = at + 3 * number_of_jobs + 1
end

-- The records under the ids that are handed in.
local function records_there()
  return load_records(unpack(ARGV, first + 1, first + number_of_jobs))
end

-- Head, V and, if it stands apart, payload of a job. To be asked once for each, in order.
local function job_at(i)
  local head, v = ARGV[first + number_of_jobs + i], ARGV[first + 2 * number_of_jobs + i]
  if read('>I4', head, 4) <= INLINE_MAX then
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
