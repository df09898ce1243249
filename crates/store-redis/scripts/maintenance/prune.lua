-- Removes jobs of one queue that have ended and are no longer kept: the first to end, and of those that ended together
-- the first accepted.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2 version of the definition, 3 state, 4 how many are kept ('' all), 5 for how many micros ('' for ever),
--   6 most to remove, 7 how many of the first to skip
-- Answers how many are gone, whether there may be more (1 or 0), how many strange ones were met, which stay and are to be
-- skipped from now on, and the instant from which the first that stays is too old ('': none will be); or nothing if the
-- definition has changed.

-- What one call may weigh: a job 1, a record of an attempt 1, each 8 KiB of payload or output 1.
local WEIGHT_MAX, HEAVY = 1000, 8192

if (redis.call('HGET', KEY.meta, 'version') or '0') ~= ARGV[2] then
  return {}
end
local state, most, skip = byte(ARGV[3]), tonumber(ARGV[6]), tonumber(ARGV[7])
local ended = places.ENDED[state]
local surplus = ARGV[4] == '' and 0 or redis.call('ZCARD', ended) - ARGV[4]
local oldest_kept = ARGV[5] == '' and -1 or clock.now - ARGV[5]
if most == 0 then
  return { 0, 0, 0, clock.now_text }
end

-- When the first job that is kept becomes too old.
local function too_old(passed)
  local first = ARGV[5] ~= '' and redis.call('ZRANGE', ended, passed, passed, 'WITHSCORES')[2]
  local instant = first and first + ARGV[5] + 1 or clock.NEVER_MICROS
  return instant < clock.NEVER_MICROS and string.format('%.0f', instant) or ''
end

-- The first ones in order, so what goes is the front of this.
local first = redis.call('ZRANGE', ended, skip, skip + most - 1, 'WITHSCORES')
local ids = {}
for i = 1, #first, 2 do
  if skip + #ids >= surplus and tonumber(first[i + 1]) >= oldest_kept then
    break
  end
  ids[#ids + 1] = sub(first[i], PLACE.id)
end
if #ids == 0 then
  return { 0, 0, 0, too_old(skip) }
end

local found, strange = records.load(unpack(ids))
local has_outputs = redis.call('EXISTS', KEY.outputs) == 1
local weight, looked_at, gone, passed = 0, 0, 0, 0
for i, id in ipairs(ids) do
  if weight >= WEIGHT_MAX then
    break
  end
  local record = found[i]
  looked_at = i
  if record and byte(record) == state then
    local bytes = read('>I4', record, RECORD.payload)
    if has_outputs then
      bytes = bytes + redis.call('HSTRLEN', KEY.outputs, id)
    end
    weight = weight + 1 + bytes / HEAVY + moves.remove(id, record)
    gone = gone + 1
  elseif strange[i] then
    passed = passed + 1
  else
    -- A place without a job should not be; it goes as well.
    batch.add(batch.of('ZREM', ended), first[2 * i - 1])
  end
end
batch.write()
blocks.write_released()
return { gone, (looked_at < #ids or looked_at == most) and 1 or 0, passed, too_old(skip + passed) }
