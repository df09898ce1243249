-- Moves jobs of one queue whose expiry has come to dead, and those whose time has come to ready. Clears the head of a line
-- that holds little but stale members.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2 most that expire, 3 most that become ready
-- Answers how many expired, how many are ready now, and how many transfers to other queues wait here.

-- How many stale members a line may have, and how many members of one are looked at.
local STALE_MAX, MEMBERS_MAX = 1000, 250

-- What lives at the head of the line goes to the kind's zset.
local function clear_head(kind, key, stale)
  local turns, ids, passed = redis.call('LRANGE', key, 0, MEMBERS_MAX - 1), {}, 0
  for i, turn in ipairs(turns) do
    ids[i] = sub(turn, TURN.id)
  end
  local found, strange = {}, {}
  if #ids > 0 then found, strange = records.load(unpack(ids)) end
  for i, turn in ipairs(turns) do
    if strange[i] or found[i] and lines.stands_at(found[i], turn) then
      batch.add(kinds.zset(kind), 0, turn)
    else
      passed = passed + 1
    end
  end
  redis.call('LTRIM', key, #turns, -1)
  batch.write()
  lines.note_stale(kind, #turns == 0 and -stale or -passed)
end

local function clear_line()
  local counts = redis.call('HGETALL', keys.stale)
  for i = 1, #counts, 2 do
    local key, stale = keys.line(counts[i]), tonumber(counts[i + 1])
    if stale > STALE_MAX and 2 * stale > redis.call('LLEN', key) then
      return clear_head(counts[i], key, stale)
    end
  end
end

clear_line()
local due = promotion()
return { due.expire(ARGV[2]), due.promote(ARGV[3]), redis.call('XLEN', KEY.transfers) }
