-- Unique keys and which job holds each (HOLDER): by digest, and those that are held for a time also in an order by the instant
-- from which on they are free. Accepting takes keys, and so does a retry by hand; moves give them up. No script takes a key
-- that it gives up afterwards: batches write removals first. Made only where a job has a key, as mostly none has.
-- Needs: keys, clock, records, batch.
local unique_keys
local function uniques()
  if unique_keys then return unique_keys end
  local of, add, holders, windows = batch.of, batch.add, keys.prefix .. NAME.uniques, keys.prefix .. NAME.windows
  local START, END, WINDOW = byte('s'), byte('e'), byte('w')
  -- Holders by digest, as this script has found or made them; false where there is none.
  local known = {}
  -- What keys that are taken are given to the server as, and how many values that are.
  local new, new_number = nil, 0

  local function found(digest)
    local holder = known[digest]
    if holder == nil then
      holder = redis.call('HGET', holders, digest)
      known[digest] = holder
    end
    return holder
  end

  -- Reads who holds these keys, all at once. What the script has changed since stays. Answers whether they are all free, where
  -- they are asked for only to be taken, each once: then nothing is noted of them.
  local function look_up(digests, is_once)
    local all, number = redis.call('HMGET', holders, unpack(digests)), #digests
    if is_once then
      local free = 0
      while free < number and not all[free + 1] do
        free = free + 1
      end
      if free == number then return true end
    end
    for i = 1, number do
      local digest = digests[i]
      if known[digest] == nil then known[digest] = all[i] end
    end
    return false
  end

  -- Takes the key away from the job that has it.
  local function drop(digest, holder)
    add(of('HDEL', holders), digest)
    if sub(holder, HOLDER.free, HOLDER.free_end) ~= BYTES.zero8 then add(of('ZREM', windows), digest) end
  end

  -- The job that holds a key now.
  local function holder_of(digest)
    local holder = found(digest)
    if not holder then return nil end
    local free = read('>I8', holder, HOLDER.free)
    return (free == 0 or free > clock.now) and sub(holder, HOLDER.id, HOLDER.id_end) or nil
  end

  -- Gives a key of this digest, which is free, to a job that is accepted at an instant. What else is said of the key (UNIQUE)
  -- follows a place in a text. `is_once` where `look_up` has said so of it.
  local function take(id, digest, text, before, at, is_once)
    local lifetime, free8 = byte(text, before + UNIQUE.lifetime), BYTES.zero8
    if lifetime ~= END and lifetime ~= START then
      local micros = read('>I8', text, before + UNIQUE.micros)
      local free = lifetime == WINDOW and at + micros or at - math.fmod(at, micros) + micros
      add(of('ZADD', windows), string.format('%.0f', math.min(free, clock.NEVER_MICROS)), digest)
      free8 = clock.instant(free)
    end
    local taken = id .. free8
    if not is_once then
      local before_it = found(digest)
      if before_it then drop(digest, before_it) end
      known[digest] = taken
    end
    new = new or of('HSET', holders)
    new[new_number + 1], new[new_number + 2], new_number = digest, taken, new_number + 2
  end

  -- As `take` with `is_once`, for jobs in a row: the i-th has the id that stands so far behind a place in ARGV, and so with its
  -- content and its digest. `has_timed` where one may be held for a time.
  local function take_run(number, id_at, content_at, digests, place, at, has_timed)
    local argv = ARGV
    if has_timed then
      for i = 1, number do
        local content = argv[content_at + i]
        take(argv[id_at + i], digests[place + i], content, #content - WIDTH.unique, at, true)
      end
      return
    end
    new = new or of('HSET', holders)
    local values, n = new, new_number
    for i = 1, number do
      values[n + 1], values[n + 2], n = digests[place + i], argv[id_at + i] .. BYTES.zero8, n + 2
    end
    new_number = n
  end

  -- The key of a job that has one, in the long form of its record.
  local function of_record(record)
    local last = records.content_end(record)
    return sub(record, last - WIDTH.unique + 1, last)
  end

  -- Told of a job with a key that goes to another state, or nowhere if it is removed: gives up the key if its lifetime ends
  -- by that and the job holds it.
  local function moved(id, record, to)
    local key = of_record(record)
    local lifetime = byte(key, UNIQUE.lifetime)
    if lifetime == START and not (to and to < STATE.running) or lifetime == END and not (to and to <= STATE.running) then
      local digest = sub(key, UNIQUE.digest, UNIQUE.digest_end)
      local holder = found(digest)
      if holder and sub(holder, HOLDER.id, HOLDER.id_end) == id then
        drop(digest, holder)
        known[digest] = false
      end
    end
  end

  -- Told of jobs that have ended, which had these keys until then.
  local function ended(ids, digests)
    local all = redis.call('HMGET', holders, unpack(digests))
    for i = 1, #ids do
      local holder = all[i]
      if holder and sub(holder, HOLDER.id, HOLDER.id_end) == ids[i] then
        drop(digests[i], holder)
        known[digests[i]] = false
      end
    end
  end

  -- Takes the key of a job again that begins anew, if it ends with the job. Answers who holds it, if another does.
  local function take_again(id, record)
    local key = of_record(record)
    local lifetime = byte(key, UNIQUE.lifetime)
    if lifetime ~= START and lifetime ~= END then return nil end
    local digest = sub(key, UNIQUE.digest, UNIQUE.digest_end)
    local holder = holder_of(digest)
    if not holder then take(id, digest, key, 0, clock.now) end
    return holder
  end

  -- Forgets keys whose time is over, at most so many. Answers how many. One that is taken anew is written after that.
  local function forget(most)
    local digests = redis.call('ZRANGEBYSCORE', windows, '-inf', clock.now_text, 'LIMIT', 0, most)
    for _, digest in ipairs(digests) do
      add(of('ZREM', windows), digest)
      add(of('HDEL', holders), digest)
    end
    return #digests
  end

  unique_keys = {
    look_up = look_up,
    holder_of = holder_of,
    take = take,
    take_run = take_run,
    of_record = of_record,
    moved = moved,
    ended = ended,
    take_again = take_again,
    forget = forget,
  }
  return unique_keys
end
