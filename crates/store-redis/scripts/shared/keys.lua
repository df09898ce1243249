-- What scripts about a queue begin with: short names for what they call often, and the keys that they make up, of a kind,
-- a lease, a block or a call. These carry the tag of the queue and so live in its slot. The keys that are known beforehand
-- are KEY.meta and so on (keys.rs).
local byte, sub, find, char = string.byte, string.sub, string.find, string.char
local pack, read = struct.pack, struct.unpack

-- A whole number as a text: a command is slow to make one of a number, and few are asked for.
local texts = {}
local function text_of(number)
  local known = texts[number]
  if not known then
    known = string.format('%.0f', number)
    texts[number] = known
  end
  return known
end

local keys = (function()
  local prefix = sub(KEY.meta, 1, -1 - #'meta')
  local ready_keys, kind_of, lease_keys = {}, {}, {}

  -- The ready jobs of a kind that stand in a zset.
  local function zset(kind)
    return prefix .. 'ready:' .. kind
  end

  -- The same, and notes of which kind it is.
  local function ready(kind)
    local key = ready_keys[kind]
    if not key then
      key = zset(kind)
      ready_keys[kind], kind_of[key] = key, kind
    end
    return key
  end

  -- The jobs that hang on a lease ('running:'), and those of them that are asked to stop ('stopping:').
  local function of_lease(name, lease)
    local by_lease = lease_keys[name]
    if not by_lease then
      by_lease = {}
      lease_keys[name] = by_lease
    end
    local key = by_lease[lease]
    if not key then
      key = prefix .. name .. string.gsub(lease, '.', function(c) return string.format('%02x', byte(c)) end)
      by_lease[lease] = key
    end
    return key
  end

  return {
    -- What all keys of the queue begin with.
    prefix = prefix,
    zset = zset,
    ready = ready,
    of_lease = of_lease,
    -- The kind whose key `ready` has made.
    kind_of = kind_of,
    -- The kinds that may have ready jobs (kinds.lua), and how they are marked there for their zset and for parked turns.
    kinds = prefix .. 'kinds',
    ZSET = '!',
    PARKED = '?',
    -- Ready jobs of a kind that a program did not know (claim/parked.lua).
    parked = function(kind) return prefix .. 'parked:' .. kind end,
    -- How many members of a kind's line are stale, by kind (lines.lua).
    stale = prefix .. 'stale',
    line = function(kind) return prefix .. 'line:' .. kind end,
    -- What transfers say, where that is long, by a name of its own (hash).
    contents = prefix .. 'contents',
    -- What was spent of the queue's rate (claim/rates.lua).
    spent = function() return prefix .. 'spent' end,
    block = function(number) return prefix .. 'block:' .. number end,
    call = function(call) return prefix .. 'call:' .. sub(call, CALL.id, CALL.id_end) end,
  }
end)()
