-- What the rules of a queue leave of a claim: nothing of what is paused, no more than its concurrency, its rate and, where it
-- has limits, what can begin at once. They are read from the definition itself, so that no program decides by the one before.
-- Made only where the definition has rules: for so many jobs that can begin at once, of the kinds in ARGV[from] and after.
-- Answers nothing if the definition does not read, or `left`, how many jobs they leave, of the kinds in `kinds[from]` and
-- after; `is_limited`, whether it has limits; `room`, how many jobs those of the queue leave; `aging`, what a level of priority is worth where it is aged; `keys`, the rules for keys, with those that are paused, each until when;
-- `spend(jobs)`, to be told how many start; and `until_next(micros, opens)`, how long until they may leave more, or a gate
-- opens, which is at an instant, or something else is due, in so many micros (-1: nothing).
-- Needs: keys, clock, rates.
local function heed_rules(at_once, from)
  local now, next_end = clock.now, nil
  local meta = redis.call('HMGET', KEY.meta, 'config', 'c3', 'spent', 'full')
  local is_read, config = pcall(cjson.decode, meta[1] or '{}')
  if not is_read or type(config) ~= 'table' then return nil end
  local r = { left = math.huge, room = math.huge, kinds = ARGV, from = from, is_limited = false, keys = { paused = {}, weights = {}, room = math.huge } }

  -- What a definition says of something, if it does.
  local function said(value)
    if value ~= cjson.null then return value end
  end

  -- Whether a pause holds. Notes when the next one ends.
  local function holds(pause)
    local ends = said(pause['until'])
    if not ends then return true end
    if ends <= now then return false end
    next_end = math.min(next_end or ends, ends)
    return true
  end

  local function pass_over(paused)
    local kinds = {}
    for i = from, #ARGV do
      if not paused[ARGV[i]] then kinds[#kinds + 1] = ARGV[i] end
    end
    r.kinds, r.from = kinds, 1
  end

  local function heed_pauses(pauses)
    local paused = {}
    for kind, pause in pairs(pauses.kinds or {}) do
      if holds(pause) then paused[kind] = true end
    end
    if next(paused) then pass_over(paused) end
    local of_queue = said(pauses.queue)
    if of_queue and holds(of_queue) then r.kinds, r.from = {}, 1 end
    for key, pause in pairs(pauses.keys or {}) do
      if holds(pause) then r.keys.paused[key] = said(pause['until']) or clock.NEVER_MICROS end
    end
  end

  -- What the definition says of keys.
  local function heed_keys(of_keys)
    r.keys.concurrency, r.keys.rate = said(of_keys.concurrency), said(of_keys.rate)
    r.keys.weights = said(of_keys.weights) or {}
    return r.keys.concurrency or r.keys.rate
  end

  if config.pauses then heed_pauses(config.pauses) end
  r.aging = said(config.aging)
  local concurrency, rate, of_keys = said(config.concurrency), said(config.rate), said(config.keys)
  local are_limited = of_keys and heed_keys(of_keys)
  if concurrency or rate or are_limited then r.is_limited, r.left = true, at_once end
  if concurrency then r.room = math.max(0, concurrency - (tonumber(meta[2]) or 0)) end
  rate = rate and rates().of(rate, meta[3], meta[4])
  if rate then r.room = math.min(r.room, rate.left) end
  r.left = math.min(r.left, r.room)

  function r.spend(jobs)
    if rate and jobs > 0 then rate.spend(jobs) end
  end

  function r.until_next(micros, opens)
    local next_at = rate and rate.left == 0 and rate.more_at or clock.NEVER_MICROS
    next_at = math.min(next_at, next_end or next_at, opens or next_at)
    if next_at >= clock.NEVER_MICROS then return micros end
    local span = math.max(0, next_at - now)
    return micros < 0 and span or math.min(micros, span)
  end

  return r
end
