-- The record of a job, as row.rs packs it; places count from 1:
--   1 state, 2 flags, 3 reason, 4-7 attempt, 8-23 other counters, 24-31 fence number, 32-39 due, 40-47 seq,
--   48-49 priority, 50-57 expiry, 58-65 enqueued, 66-73 finished, 74-77 payload length, 78-81 length of the content, 82-85 block,
--   86- content (kind length, kind, payload if it is short, the rest of what was handed in), and once it was claimed
--   the claim: nonce 8, lease 16, claimed 8, label with its length.
-- Flags are '0' and 1 if it is asked to stop, 2 if its handler has begun, 4 if a reaper put it back and nothing has
--   happened to it since, or if it came to its end from there.
-- A job that was never claimed has a short form: 1 '@' and what it has (1 is ready, 2 expires, 4 is due at another time
--   than it was enqueued), 2-9 due, 10-17 seq, 18-19 priority, enqueued and expiry if it has them (8 each), then payload
--   length and all that follows.
-- One that was in this form when it was claimed, with nothing of it apart, and without expiry, keeps to a short form in its
--   first attempt: 1 'a', 2-33 the first three of B, which all jobs of a claim share, so that one comparison tells the
--   state and the fence; 34- what followed the tag before, then the label with its length. When its handler has begun it
--   is 1 'c', and the rest the same. Completed in that attempt it is 1 'b', 2-9 finished, then what followed the 'a'.
--   Anything else that happens to it makes the long form of it.
-- Only accepting, promoting, claiming, beginning and settling know the short forms; all else sees the long one, by
--   `load_records`.
-- The first byte says the form. A record of a form that is not known here, or that is cut short, is strange: no script
--   changes it, counts it or takes its places away. A later layout takes first bytes from 128 on, of which the lowest
--   three bits are the state, so that it can be shown.
-- Texts are compared for equality only: the order of `<` depends on the server's locale.
-- Needs: keys.
local byte, sub = string.byte, string.sub
local pack, read = struct.pack, struct.unpack
local ZERO4, ZERO8 = string.rep('\0', 4), string.rep('\0', 8)
-- States as the first byte of a record; what is below RUNNING waits, what is above has ended.
local S_SCHEDULED, S_READY, S_RUNNING, S_COMPLETED, S_DEAD, S_CANCELLED = 49, 50, 51, 52, 53, 54
-- The first three bytes of a record that ended without a worker.
local EXPIRED, REQUESTED = '50e', '60r'
-- The flags of a record that a reaper put back.
local REAPED = 52
-- A longer payload stands in BODIES.
local INLINE_MAX = 1024
local ATTEMPTS_KEPT = 50

-- Tags of short records: all are at least SHORT; a fresh one that is ready is mostly S_FRESH.
local SHORT, S_FRESH = 64, 65
-- State, counters and fence number of a job that was never claimed, after its state.
local UNTOUCHED = '0-' .. string.rep('\0', 28)
-- The tags of short records of jobs that run for the first time, that completed then, and whose handler has begun; and
-- what the long form of them has after its state: flags, reason, counters and fence number.
local S_FIRST, S_DONE, S_BEGUN = 97, 98, 99
local FIRST = '-\0\0\0\1' .. string.rep('\0', 23) .. '\1'

local ready_keys, ready_kinds, lease_keys = {}, {}, {}

-- The long form of the record of a first attempt, with its state and flags; `at` is how much later than in one that runs
-- things stand.
local function expand_first(record, state, at, finished8)
  local v = 63 + at + read('>I4', record, 56 + at)
  return state .. FIRST .. sub(record, 34 + at, 51 + at) .. ZERO8 .. sub(record, 34 + at, 41 + at) .. finished8
    .. sub(record, 52 + at, v) .. sub(record, 2 + at, 33 + at) .. sub(record, v + 1)
end

-- The long form of a record, false if it is strange.
local function expand(record)
  local tag, at = byte(record, 1) or 0, 20
  if tag < SHORT then
    return tag >= S_SCHEDULED and tag <= S_CANCELLED and #record > 86 and record
  elseif tag == S_FIRST or tag == S_BEGUN then
    return #record > 64 and expand_first(record, tag == S_FIRST and '30' or '32', 0, ZERO8)
  elseif tag == S_DONE then
    return #record > 72 and expand_first(record, '40', 8, sub(record, 2, 9))
  elseif tag > SHORT + 7 then
    return false
  end
  local enqueued8, expires8 = sub(record, 2, 9), ZERO8
  if tag % 8 >= 4 then
    enqueued8, at = sub(record, at, at + 7), at + 8
  end
  if tag % 4 >= 2 then
    expires8, at = sub(record, at, at + 7), at + 8
  end
  local state = tag % 2 == 1 and '2' or '1'
  return #record > at + 12
    and state .. UNTOUCHED .. sub(record, 2, 19) .. expires8 .. enqueued8 .. ZERO8 .. sub(record, at)
end

-- The records under ids, false where there is none or it is strange; and those that are strange, as they are stored.
local function load_records(...)
  local records, strange = redis.call('HMGET', JOBS, ...), {}
  for i = 1, #records do
    local stored = records[i]
    if stored then
      records[i] = expand(stored)
      if not records[i] then strange[i] = stored end
    end
  end
  return records, strange
end

-- The state of a strange record as a digit, 0 if it does not say.
local function strange_state(stored)
  local tag = byte(stored, 1) or 0
  return tag >= 128 and tag % 8 <= 6 and string.char(48 + tag % 8) or '0'
end

-- The key of the ready jobs of a kind that stand in a zset.
local function ready_key(kind)
  local key = ready_keys[kind]
  if not key then
    key = PREFIX .. 'ready:' .. kind
    ready_keys[kind], ready_kinds[key] = key, kind
  end
  return key
end

local function kind_of(record)
  return sub(record, 87, 86 + byte(record, 86))
end

-- The last byte of the content.
local function v_end(record)
  return 85 + read('>I4', record, 78)
end

-- The key of the jobs that hang on a lease, and of those that are asked to stop.
local function lease_key(name, lease)
  local key = lease_keys[name .. lease]
  if not key then
    key = PREFIX .. name .. string.gsub(lease, '.', function(c) return string.format('%02x', byte(c)) end)
    lease_keys[name .. lease] = key
  end
  return key
end

-- The tags of a job, each between commas; empty if it has none. See row/content.rs.
local function tags_of(record)
  local payload = read('>I4', record, 74)
  local at = 87 + byte(record, 86) + (payload <= INLINE_MAX and payload or 0)
  local last = v_end(record)
  if at > last or last > #record then return '' end
  local flags = byte(record, at)
  at = at + 1
  if flags % 2 >= 1 then at = at + 1 < last and at + 2 + read('>I2', record, at) or last + 1 end
  return flags % 4 >= 2 and sub(record, at, last) or ''
end
