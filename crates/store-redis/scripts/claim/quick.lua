-- The usual claim of jobs with a key: there are at least as many open gates as jobs are wanted, so that each gives its first job.
-- Does the same as the first round of claim/keyed, with lists by place instead of a table for each gate. Stops where a gate has
-- something else than a job in its short form that fits: what follows is for claim/keyed.
-- Made only where a queue has keys without weights, rate and aging.
-- Needs: keys, batch, room, starting, gates.
local function quick(rules, kinds)
  local g, r, call, _, _, _, _, start_brief = gates(), room(), redis.call, starting()
  local concurrency, paused, prefix = g.is_counting and rules.concurrency or nil, rules.paused, gates().place('')
  -- By the place of a gate: its key, its turn as a text, how many jobs of its key run, the order behind it, its first member
  -- and whether there is another one.
  local q = { number = 0, names = {}, turns = {}, running = {}, orders = {}, members = {}, has_more = {} }
  local names, orders, members, has_more = q.names, q.orders, q.members, q.has_more

  -- Finds the first jobs of gates, as far as they are of these kinds. Answers their ids.
  local function choose(most)
    local ids, running, n = {}, q.running, 0
    for i = 1, most do
      local key = names[i]
      if paused[key] or concurrency and running[key] >= concurrency then break end
      local order = prefix .. key
      local first = call('ZRANGE', order, '0', '1')
      local member = first[1]
      if not member or not kinds[sub(member, BEHIND.kind)] then break end
      n = i
      orders[i], members[i], has_more[i], ids[i] = order, member, first[2] ~= nil, sub(member, TURN.id, TURN.id_end)
    end
    return ids, n
  end

  -- Takes the first job of each of these gates, which `turns.first_texts` has found. Answers how many gates it has done with.
  function q.take(found, most)
    for i = 1, most do
      names[i], q.turns[i] = found[2 * i - 1], found[2 * i]
    end
    if g.is_counting then q.running = g.running(names) end
    local ids, n = choose(most)
    if n == 0 then return 0 end
    local stored, sum, taken = call('HMGET', KEY.jobs, unpack(ids)), r.bytes, r.number
    local before = taken
    for i = 1, n do
      local record = stored[i]
      if not record or byte(record) ~= FORM.brief + STATE.ready % 8 or #record <= PLAIN.content
        or find(record, sub(members[i], TURN.due, TURN.seq_end), PLAIN.due, true) ~= PLAIN.due then
        break
      end
      local payload, becomes = start_brief(record, FORM.brief + STATE.ready % 8)
      sum = sum + payload
      if payload > MAX.inline or sum > r.bytes_max then break end
      taken = taken + 1
      r.ids[taken], r.jobs[2 * taken - 1], r.jobs[2 * taken], r.bytes = ids[i], ids[i], becomes, sum
    end
    q.number, r.number = taken - before, taken
    return q.number
  end

  -- A gate that has given its job, as claim/keyed knows it.
  function q.gate(i)
    return {
      key = names[i], turn = tonumber(q.turns[i]) + GATES.cost, order = orders[i], removed = { members[i] }, given = 1, most = 1,
      chosen = false, total = not has_more[i] and 1, running = concurrency and q.running[names[i]] + 1 or nil,
    }
  end

  -- Writes what becomes of the gates, with the batch.
  function q.write()
    local of, running = batch.of, q.running
    local gone, turned, closed = of('ZREM', g.open), of('ZADD', g.open), of('ZADD', g.closed)
    local emptied, later, gone_n, turned_n, emptied_n = {}, {}, #gone, #turned, 0
    for i = 1, q.number do
      local key = names[i]
      local is_full = concurrency and running[key] + 1 >= concurrency
      if not has_more[i] or is_full then
        gone_n = gone_n + 1
        gone[gone_n] = key
      else
        local turn = q.turns[i]
        local next_turn = later[turn]
        if not next_turn then
          next_turn = text_of(tonumber(turn) + GATES.cost)
          later[turn] = next_turn
        end
        turned[turned_n + 1], turned[turned_n + 2], turned_n = next_turn, key, turned_n + 2
      end
      if not has_more[i] then
        emptied_n = emptied_n + 1
        emptied[emptied_n] = orders[i]
      elseif is_full then
        batch.add(closed, '+inf', key)
      end
    end
    if emptied_n > 0 then batch.give('UNLINK', emptied[1], emptied) end
    batch.first(function()
      for i = 1, q.number do
        if has_more[i] then call('ZREM', orders[i], members[i]) end
      end
    end)
    g.started_each(names, q.number)
  end

  return q
end
