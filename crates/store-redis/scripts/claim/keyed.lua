-- Takes jobs that have a key: from one open gate after the other by their turns, in rounds, as far as the rules for keys leave
-- (core: Jobs::claim). What becomes of the gates is written with the batch. Made only where a queue has keys: for so many jobs,
-- of which one script takes so many, of these kinds. Answers why it ended, as claim/take does.
-- Needs: keys, clock, batch, gates, room, turns, behind, permits.
local function take_keyed(wanted, most_at_once, rules, open, kinds)
  -- What it costs to look: so many gates, and so many jobs behind them, count as one that is taken. Why it ends where one
  -- script does no more: others follow, or the claim has seen enough.
  local GATES_OF_ONE, LOOKS_OF_ONE, MORE, ENOUGH = 4, 32, 3, -1
  local g, r, take_behind = gates(), room(), behind(kinds)
  local of, add, floor = batch.of, batch.add, math.floor
  local concurrency, rate = rules.concurrency, rules.rate and permits(rules.rate)
  local left, looked, work, before, ended, all = wanted, 0, 0, r.number, 0, {}

  local function weight_of(key)
    return math.max(1, rules.weights[key] or 1)
  end

  -- Reads how many jobs of keys run and what is spent of their rates, of gates that are asked for the first time.
  local function read_rules(asked)
    local new, found = {}, {}
    for _, gate in ipairs(asked) do
      if not gate.gone then
        found[#found + 1], new[#new + 1] = gate.key, gate
        gate.gone, gate.taken, gate.given, gate.weight = {}, 0, 0, weight_of(gate.key)
        all[#all + 1] = gate
      end
    end
    if #new == 0 then return end
    local running, of_keys = redis.call('HMGET', g.busy, unpack(found)), rate and rate.of(found)
    for i, gate in ipairs(new) do
      gate.running, gate.permits = tonumber(running[i]) or 0, of_keys and of_keys[i]
    end
  end

  -- What becomes of a gate: gone, or closed until an instant; nil if it stays open.
  local function fate(gate, is_empty)
    if is_empty then return 'gone' end
    local pause = rules.paused[gate.key]
    if pause then return pause end
    if concurrency and gate.running >= concurrency then return clock.NEVER_MICROS end
    if gate.permits and gate.permits.left == 0 then return gate.permits.more_at or clock.NEVER_MICROS end
  end

  -- Asks a gate for jobs, at most so many. Answers how many it gave.
  local function ask(gate, most)
    if rules.paused[gate.key] then most = 0 end
    if concurrency then most = math.min(most, math.max(0, concurrency - gate.running)) end
    if gate.permits then most = math.min(most, gate.permits.left) end
    local given, is_empty, passed, why = take_behind(gate, most)
    gate.running, gate.given = gate.running + given, gate.given + given
    if gate.permits and given > 0 then gate.permits.spend(given) end
    gate.turn = gate.turn + given * floor(GATES.cost / math.min(gate.weight, GATES.weight))
    gate.fate = fate(gate, is_empty)
    ended, work = why or ended, work + given + 1 / GATES_OF_ONE + passed / LOOKS_OF_ONE
    return given
  end

  -- Asks gates for their parts of what is wanted now, as long as the budget of a script lasts.
  local function go_round(asked)
    local weight_all, round = 0, left
    for _, gate in ipairs(asked) do
      weight_all = weight_all + gate.weight
    end
    for _, gate in ipairs(asked) do
      local quota = math.max(1, math.ceil(round * gate.weight / weight_all))
      local most = math.min(quota, left, math.max(1, floor(most_at_once - work)))
      local given = ask(gate, most)
      left = left - given
      if not gate.fate and given >= most then open.put_back(gate) end
      if ended ~= 0 or left == 0 then return end
      if work >= most_at_once then
        -- A script that gave nothing would give nothing again.
        ended = r.number > before and MORE or ENOUGH
        return
      end
    end
  end

  while left > 0 and ended == 0 do
    local asked = open.first(math.min(left, GATES.looked - looked))
    if #asked == 0 then break end
    looked = looked + #asked
    read_rules(asked)
    go_round(asked)
  end

  for _, gate in ipairs(all) do
    if gate.given > 0 then
      r.gated = r.gated or {}
      r.gated[gate.key] = gate.given
      if gate.permits then rate.keep(gate.key, gate.permits) end
    end
    if gate.fate then add(of('ZREM', g.open), gate.key) end
    if gate.fate and gate.fate ~= 'gone' then
      local until_when = gate.fate < clock.NEVER_MICROS and string.format('%.0f', gate.fate) or '+inf'
      add(of('ZADD', g.closed), until_when, gate.key)
    elseif not gate.fate and gate.given > 0 then
      add(of('ZADD', g.open), string.format('%.0f', gate.turn), gate.key)
    end
  end
  return math.max(0, ended)
end
