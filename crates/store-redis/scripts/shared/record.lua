-- The record of a job, as row.rs packs it; places count from 1:
--   1 state, 2 cancel requested, 3 reason, 4-7 attempt, 8-23 other counters, 24-31 fence number, 32-39 due, 40-47 seq,
--   48-49 priority, 50-57 expiry, 58-65 enqueued, 66-73 finished, 74-77 payload length, 78-81 length of V, 82-85 block,
--   86- V (kind length, kind, payload if it is short, the rest of what was handed in), and once it was claimed
--   B: nonce 8, lease 16, claimed 8, label with its length.
-- Texts are compared for equality only: the order of `<` depends on the server's locale.
-- Needs: keys.
local byte, sub = string.byte, string.sub
local pack, read = struct.pack, struct.unpack
local ZERO4, ZERO8 = string.rep('\0', 4), string.rep('\0', 8)
-- States as the first byte of a record; what is below RUNNING waits, what is above has ended.
local S_SCHEDULED, S_READY, S_RUNNING, S_COMPLETED, S_DEAD, S_CANCELLED = 49, 50, 51, 52, 53, 54
-- The first three bytes of a record that ended without a worker.
local EXPIRED, REQUESTED = '50e', '60r'
-- A longer payload stands in BODIES.
local INLINE_MAX = 1024
local ATTEMPTS_KEPT = 50

local ready_keys, lease_keys = {}, {}

local function ready_key(kind)
  local key = ready_keys[kind]
  if not key then
    key = PREFIX .. 'ready:' .. kind
    ready_keys[kind] = key
  end
  return key
end

local function kind_of(record)
  return sub(record, 87, 86 + byte(record, 86))
end

-- The last byte of V.
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

-- The tags of a job, each between commas; empty if it has none. See row/spec.rs.
local function tags_of(record)
  local payload = read('>I4', record, 74)
  local at = 87 + byte(record, 86) + (payload <= INLINE_MAX and payload or 0)
  local flags = byte(record, at)
  at = at + 1
  if flags % 2 >= 1 then at = at + 4 end
  if flags % 4 >= 2 then at = at + 8 end
  if flags % 8 >= 4 then at = at + 2 + read('>I2', record, at) end
  return flags >= 8 and sub(record, at, v_end(record)) or ''
end
