-- Lines: fresh jobs of priority 0, of one kind each, in a list, which takes a quarter of the room and a tenth of the time
-- of a zset. A line only grows at its end and shrinks at its head, so it takes a job only if it comes behind the last one;
-- all others stand in the kind's zset, and a claim merges both. Members are the same: due, seq, id.
-- A job that leaves a line otherwise than by a claim leaves its member behind: it is stale, as the record tells. Claims
-- pass stale members; STALE counts them by kind, so that maintenance clears a line that holds little else.
-- Needs: keys, record.
local STALE = PREFIX .. 'stale'

local function line_key(kind)
  return PREFIX .. 'line:' .. kind
end

local function note_stale(kind, by)
  if redis.call('HINCRBY', STALE, kind, by) <= 0 then
    redis.call('HDEL', STALE, kind)
  end
end

-- Whether a record, in its long form, is that of a ready job which stands at this place.
local function stands_at(record, member)
  return byte(record, 1) == S_READY and sub(record, 32, 47) == sub(member, 1, 16)
end
