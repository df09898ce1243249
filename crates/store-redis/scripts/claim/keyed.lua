-- Takes jobs that have a key: from one open gate after the other by their turns, in rounds, as far as the rules for keys leave
-- (core: Jobs::claim). What becomes of the gates is written with the batch. Made only where a queue has keys: for so many jobs,
-- of which one script takes so many, of the kinds from a place in a list on. Answers why it ended, as claim/take does.
-- Needs: keys, clock, batch, gates, room, turns, behind, permits.
local function take_keyed(wanted, most_at_once, rules, open, asked_kinds, first_kind)
  -- What it costs to look: so many gates, and so many jobs behind them, count as one that is taken. Why it ends where one
  -- script does no more: others follow.
  local GATES_OF_ONE, LOOKS_OF_ONE, MORE = 4, 32, 3
  local kinds = {}
  for i = first_kind, #asked_kinds do
    kinds[asked_kinds[i]] = true
  end
  local g, r, jobs = gates(), room(), behind(kinds)
  local of, min, max, floor = batch.of, math.min, math.max, math.floor
  local concurrency = g.is_counting and rules.concurrency or nil
  local rate, paused, weights = rules.rate and permits(rules.rate), rules.paused, rules.weights
  local has_weights = next(weights) ~= nil
  local left, looked, work, before, ended, all = wanted, open.looked, 0, r.number, 0, {}

  local function weight_of(gate)
    return max(1, weights[gate.key] or 1)
  end

  -- Reads how many jobs of keys run and what is spent of their rates, of gates that are asked for the first time.
  local function read_rules(asked)
    local new, names, n = {}, {}, 0
    for i = 1, #asked do
      local gate = asked[i]
      if not gate.order then
        n = n + 1
        names[n], new[n] = gate.key, gate
        gate.order, gate.removed = g.place(gate.key), {}
      end
    end
    if n == 0 or not (concurrency or rate) then return end
    local running, of_keys = concurrency and g.running(names), rate and rate.of(names)
    for i = 1, n do
      new[i].running, new[i].permits = running and running[names[i]], of_keys and of_keys[i]
    end
  end

  -- How many of so many jobs the rules leave. Notes whether their limits are near.
  local function leave(gate, most)
    local room = concurrency and max(0, concurrency - gate.running) or rules.room
    if gate.permits then room = min(room, gate.permits.left) end
    if room < RULES.ample * most then rules.is_near = true end
    return paused[gate.key] and 0 or min(most, room)
  end

  -- What becomes of a gate: gone, or closed until an instant; nil if it stays open.
  local function fate(gate)
    if gate.total == #gate.removed then return 'gone' end
    local pause = paused[gate.key]
    if pause then return pause end
    if concurrency and gate.running >= concurrency then return clock.NEVER_MICROS end
    if gate.permits and gate.permits.left == 0 then return gate.permits.more_at or clock.NEVER_MICROS end
  end

  -- A gate gave so many jobs, and so many were looked at.
  local function note(gate, given, looks)
    -- Only one that gave jobs before is asked again.
    if gate.given == 0 then all[#all + 1] = gate end
    if given > 0 then
      gate.given = gate.given + given
      if concurrency then gate.running = gate.running + given end
      if gate.permits then gate.permits.spend(given) end
      gate.turn = gate.turn + given * floor(GATES.cost / min(has_weights and weight_of(gate) or 1, GATES.weight))
    end
    left, work = left - given, work + given + 1 / GATES_OF_ONE + looks / LOOKS_OF_ONE
    if given >= gate.most and not fate(gate) then open.put_back(gate) end
  end

  -- Asks gates from a place on for their parts, as far as the budget of a script lasts. The records of what they may give are
  -- read at once. Answers the place of the next one: where a gate gives less than it was to, others may give more.
  local function ask(asked, from, round, weight_all, even_part)
    local ids, looks, n, place, still, effort = {}, {}, 0, from, left, work
    repeat
      local gate = asked[place]
      local part = has_weights and max(1, math.ceil(round * weight_of(gate) / weight_all)) or even_part
      gate.most = min(part, still, max(1, floor(most_at_once - effort)))
      local number, seen = jobs.choose(gate, leave(gate, gate.most))
      local chosen = gate.chosen
      looks[place] = seen
      for i = 1, number do
        ids[n + i] = sub(chosen[i], TURN.id, TURN.id_end)
      end
      n, place, still = n + number, place + 1, still - number
      effort = effort + number + 1 / GATES_OF_ONE + seen / LOOKS_OF_ONE
    until place > #asked or still == 0 or effort >= most_at_once
    local found, at, why = n > 0 and redis.call('HMGET', KEY.jobs, unpack(ids)) or {}, 0, nil
    for i = from, place - 1 do
      local gate, given = asked[i], 0
      local number = #gate.chosen
      if number > 0 then given, why = jobs.take(gate, ids, found, at) end
      at = at + number
      note(gate, given, looks[i])
      if why then ended = why end
      if ended ~= 0 or left == 0 then return nil end
      if work >= most_at_once then
        ended = MORE
        return nil
      end
      if given < number then return i + 1 end
    end
    return place
  end

  -- As the first round, where each gate is to give one job. Answers whether all is done by that.
  local function first_round()
    local most = min(left, floor(most_at_once / (1 + 1 / GATES_OF_ONE + 1 / LOOKS_OF_ONE)))
    local found = most > 0 and open.first_texts(most)
    if not found then return false end
    local q = quick(rules, kinds)
    local given = q.take(found, most)
    left, looked, work = left - given, looked + given, given * (1 + 1 / GATES_OF_ONE + 1 / LOOKS_OF_ONE)
    if rules.room < RULES.ample then rules.is_near = true end
    for i = 1, concurrency and given or 0 do
      if concurrency - q.running[q.names[i]] < RULES.ample then rules.is_near = true end
    end
    if given == most then
      if left > 0 then ended = MORE end
      q.write()
      return true
    end
    open.pass(given)
    for i = 1, given do
      local gate = q.gate(i)
      all[i] = gate
      if not fate(gate) then open.put_back(gate) end
    end
    return false
  end

  rules.is_near = false
  if not (has_weights or rate or aged_made) and first_round() then return ended end
  while left > 0 and ended == 0 do
    local asked = open.first(min(left, GATES.looked - looked))
    if #asked == 0 then break end
    looked = looked + #asked
    read_rules(asked)
    local weight_all, round, place = 0, left, 1
    for i = 1, has_weights and #asked or 0 do
      weight_all = weight_all + weight_of(asked[i])
    end
    local even_part = max(1, math.ceil(round / #asked))
    while place and place <= #asked do
      place = ask(asked, place, round, weight_all, even_part)
    end
  end

  -- Where no gate was asked, nothing is known of their limits.
  if looked == open.looked then rules.is_near = true end
  local emptied, still = {}, 0
  local gone, turned, closed = of('ZREM', g.open), of('ZADD', g.open), of('ZADD', g.closed)
  for i = 1, #all do
    local gate = all[i]
    local given, becomes = gate.given, fate(gate)
    if given > 0 then
      r.gated = r.gated or {}
      r.gated[gate.key] = given
      if gate.permits then rate.keep(gate.key, gate.permits) end
    end
    if becomes then
      gone[#gone + 1] = gate.key
    elseif given > 0 then
      batch.add(turned, text_of(gate.turn), gate.key)
    else
      still = still + 1
    end
    if becomes == 'gone' then
      -- One command removes them all, the first of them twice.
      if #emptied == 0 then batch.give('UNLINK', gate.order, emptied) end
      emptied[#emptied + 1] = gate.order
    else
      batch.give('ZREM', gate.order, gate.removed)
      if becomes then batch.add(closed, becomes < clock.NEVER_MICROS and text_of(becomes) or '+inf', gate.key) end
    end
  end
  -- A script that gave nothing would ask the same gates again: the next one goes on behind them. Where it gave some, the turns
  -- of those have moved, and it begins where this one began.
  if ended == MORE and r.number == before then
    open.passed, open.looked = open.passed + still, open.looked + #all
    if open.looked >= GATES.looked then ended = 0 end
  end
  return ended
end
