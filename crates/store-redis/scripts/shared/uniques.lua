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

  -- Reads who holds these keys, all at once. What the script has changed since stays.
  local function look_up(digests)
    local all = redis.call('HMGET', holders, unpack(digests))
    for i = 1, #digests do
      local digest = digests[i]
      if known[digest] == nil then known[digest] = all[i] end
    end
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
  -- follows a place in a text.
  local function take(id, digest, text, before, at)
    local lifetime, free = byte(text, before + UNIQUE.lifetime), nil
    if lifetime ~= START and lifetime ~= END then
      local micros = read('>I8', text, before + UNIQUE.micros)
      free = lifetime == WINDOW and at + micros or at - math.fmod(at, micros) + micros
      add(of('ZADD', windows), string.format('%.0f', math.min(free, clock.NEVER_MICROS)), digest)
    end
    local before_it, taken = found(digest), id .. (free and clock.instant(free) or BYTES.zero8)
    if before_it then drop(digest, before_it) end
    known[digest] = taken
    new = new or of('HSET', holders)
    new[new_number + 1], new[new_number + 2], new_number = digest, taken, new_number + 2
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
    of_record = of_record,
    moved = moved,
    ended = ended,
    take_again = take_again,
    forget = forget,
  }
  return unique_keys
end
