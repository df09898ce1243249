-- Compares all keys of one queue with its records: what stands somewhere has a record that says so, and the reverse.
-- KEYS 1 meta. ARGV none. Answers what does not agree, one sentence each.
local P = string.sub(KEYS[1], 1, -5)
local wrong = {}
local function hex(text) return (string.gsub(text, '.', function(c) return string.format('%02x', string.byte(c)) end)) end
local function say(id, what) if #wrong < 50 then wrong[#wrong + 1] = hex(id) .. ' ' .. what end end
local u = struct.unpack
local function hash(name)
  local flat, found, n = redis.call('HGETALL', P .. name), {}, 0
  for i = 1, #flat, 2 do found[flat[i]] = flat[i + 1]; n = n + 1 end
  return found, n
end
local function zset(key)
  local flat, found = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}
  for i = 1, #flat, 2 do found[flat[i]] = tonumber(flat[i + 1]) end
  return found
end
local function score_is(score, micros) return score == micros or (score >= 2 ^ 53 and micros >= 2 ^ 53) end

-- What each record says.
local jobs = {}
for id, record in pairs(hash('jobs')) do
  local tag, job = string.byte(record, 1), { id = id }
  local is_keyed, is_gated, brief_flags = tag >= 128, tag >= 136, nil
  if tag >= 144 then
    -- A short form of a job with a key: 48 more if it is not counted, 24 more if it has begun, 8 for each sort of keys.
    job.is_uncounted = tag >= 192
    local sort, state = math.floor((tag - 144) % 24 / 8), tag % 8
    brief_flags, is_gated = ({ [0] = 64, 56, 72 })[sort], sort ~= 1
    tag = state == 2 and 65 or state == 3 and 97 or 98
  elseif is_keyed then
    tag = tag - (is_gated and 88 or 80)
    job.is_uncounted = string.byte(record, 2) >= 80
  end
  if tag >= 97 then
    -- A first attempt: its claim comes first, or when it completed.
    local at = tag == 98 and 8 or 0
    job.state = tag == 98 and 4 or 3
    job.attempt, job.fence, job.asked, job.expires = 1, 1, false, 0
    job.finished = tag == 98 and u('>I8', record, 2) or 0
    job.place, job.priority = string.sub(record, 34 + at, 49 + at), u('>h', record, 50 + at)
    job.tail, job.lease = string.sub(record, 52 + at), string.sub(record, 10 + at, 25 + at)
  elseif tag >= 64 then
    local at = 20
    job.state = tag % 2 == 1 and 2 or 1
    job.attempt, job.fence, job.asked, job.expires = 0, 0, false, 0
    job.place, job.priority = string.sub(record, 2, 17), u('>h', record, 18)
    if tag % 8 >= 4 then at = at + 8 end
    if tag % 4 >= 2 then job.expires, at = u('>I8', record, at), at + 8 end
    job.tail = string.sub(record, at)
  else
    job.state, job.asked = tag - 48, string.byte(record, 2) % 2 == 1
    job.attempt, job.fence = u('>I4', record, 4), u('>I8', record, 24)
    job.place, job.priority = string.sub(record, 32, 47), u('>h', record, 48)
    job.expires, job.finished = u('>I8', record, 50), u('>I8', record, 66)
    job.tail = string.sub(record, 74)
  end
  local payload, v, block = u('>I4I4I4', job.tail)
  job.payload, job.block = payload, string.format('%.0f', block)
  job.kind = string.sub(job.tail, 14, 13 + string.byte(job.tail, 13))
  local flags = brief_flags or tag < 64 and string.byte(record, 2) or 48
  if flags % 16 >= 8 then job.key, v = string.sub(job.tail, 13 + v - 25, 12 + v), v - 25 end
  if flags >= 64 then job.gate = string.sub(job.tail, 12 + v - string.byte(job.tail, 12 + v), 11 + v) end
  if job.key then v = v + 25 end
  if is_keyed ~= (flags >= 56) or is_gated ~= (flags >= 64) then say(id, 'has a key or has none') end
  if job.fence > 0 and not job.lease then job.lease = string.sub(job.tail, 13 + v + 8, 13 + v + 23) end
  jobs[id] = job
end

local kinds, leases = {}, {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if string.sub(key, 1, #P) == P then
    local name, rest = string.match(string.sub(key, #P + 1), '^(%a+):(.*)$')
    if name == 'ready' or name == 'line' then kinds[rest] = true end
    if name == 'running' or name == 'stopping' then leases[rest] = true end
    if name == 'block' and not redis.call('ZSCORE', P .. 'blocks', rest) then
      say('', 'block ' .. rest .. ' stands in no order')
    end
  end
end
local stale_counts = hash('stale')
local has_plain = false
for _, job in pairs(jobs) do
  if not job.gate then kinds[job.kind], has_plain = true, has_plain or job.state == 2 end
end
for kind in pairs(stale_counts) do kinds[kind] = true end

-- Turns.
local turns, listed = {}, {}
for _, kind in ipairs(redis.call('SMEMBERS', P .. 'kinds')) do listed[kind] = true end
if has_plain and not listed[''] then say('', 'the list of kinds does not say that it is complete') end
for kind in pairs(kinds) do
  local stale = 0
  if not listed[kind] and redis.call('EXISTS', P .. 'line:' .. kind) > 0 then say('', kind .. ' has a line that is not listed') end
  if not listed['!' .. kind] and redis.call('EXISTS', P .. 'ready:' .. kind) > 0 then
    say('', kind .. ' has an order that is not listed')
  end
  for _, member in ipairs(redis.call('LRANGE', P .. 'line:' .. kind, 0, -1)) do
    local id = string.sub(member, 17)
    local job = jobs[id]
    if job and job.state == 2 and job.place == string.sub(member, 1, 16) and job.kind == kind then
      turns[id] = (turns[id] or 0) + 1
      if job.priority ~= 0 then say(id, 'has a priority and stands in a line') end
    else
      stale = stale + 1
    end
  end
  if stale ~= tonumber(stale_counts[kind] or 0) then
    say('', 'the line of ' .. kind .. ' has ' .. stale .. ' stale members, counted as ' .. (stale_counts[kind] or 'none'))
  end
  for member, score in pairs(zset(P .. 'ready:' .. kind)) do
    local id = string.sub(member, 17)
    local job = jobs[id]
    if job and job.state == 2 and job.place == string.sub(member, 1, 16) and job.kind == kind then
      turns[id] = (turns[id] or 0) + 1
      if score ~= -job.priority then say(id, 'has another priority') end
    else
      say(id, 'is not ready and has a turn')
    end
  end
end

-- Gates: each ready job with a key stands behind one, which is open or closed; what runs of a key is counted, and so is what
-- was spent of its rate, until it has come back.
local open, closed, busy, behind, gated = zset(P .. 'open'), zset(P .. 'closed'), hash('busy'), {}, 0
for _, key in ipairs(redis.call('KEYS', '*')) do
  if string.sub(key, 1, #P + 7) == P .. 'behind:' then
    local gate = string.sub(key, #P + 8)
    for member, score in pairs(zset(key)) do
      local id = string.sub(member, 17, 32)
      local job = jobs[id]
      if job and job.state == 2 and job.gate == gate and member == job.place .. id .. job.kind then
        turns[id], gated = (turns[id] or 0) + 1, gated + 1
        if score ~= -job.priority then say(id, 'has another priority behind its gate') end
      else
        say(id, 'stands behind a gate without being ready')
      end
    end
    if not open[gate] == not closed[gate] then say('', 'the gate of ' .. gate .. ' is open and closed, or neither') end
  end
end
local uncounted = 0
for id, job in pairs(jobs) do
  if job.is_uncounted then
    uncounted = uncounted + 1
    if job.state ~= 3 or not job.gate then say(id, 'is not counted and does not run with a key') end
  elseif job.gate and job.state == 3 then
    behind[job.gate] = (behind[job.gate] or 0) + 1
  end
end
if uncounted ~= tonumber(redis.call('HGET', P .. 'meta', 'uncounted') or 0) then
  say('', uncounted .. ' jobs that are not counted run, which is not said so')
end
for key, count in pairs(busy) do
  if behind[key] ~= tonumber(count) then say('', count .. ' jobs of ' .. key .. ' are counted as running') end
  behind[key] = nil
end
for key in pairs(behind) do say('', 'jobs of ' .. key .. ' run and are not counted') end
if gated ~= tonumber(redis.call('HGET', P .. 'meta', 'behind') or 0) then say('', gated .. ' jobs stand behind gates, not counted so') end
local permits, permits_back = hash('permits'), zset(P .. 'permits-back')
for key in pairs(permits) do
  if not permits_back[key] then say('', 'permits of ' .. key .. ' are never forgotten') end
end
for key in pairs(permits_back) do
  if not permits[key] then say('', 'permits of ' .. key .. ' come back and are not out') end
end

-- Everything else that stands in an order of its own.
local scheduled, expiring = zset(P .. 'scheduled'), zset(P .. 'expiring')
local ended = { [4] = zset(P .. 'completed'), [5] = zset(P .. 'dead'), [6] = zset(P .. 'cancelled') }
local counts, in_block, running, asked = {}, {}, {}, {}
for id, job in pairs(jobs) do
  counts[job.state] = (counts[job.state] or 0) + 1
  in_block[job.block] = (in_block[job.block] or 0) + 1
  local due, seq = u('>I8', job.place), string.sub(job.place, 9)
  if job.state == 2 and turns[id] ~= 1 then say(id, 'is ready and has ' .. (turns[id] or 'no') .. ' turns') end
  if job.state == 0 and job.fence > 0 then say(id, 'is blocked and was claimed') end
  if job.state == 1 then
    local score = scheduled[seq .. id]
    if not score or not score_is(score, due) then say(id, 'is scheduled elsewhere') end
    scheduled[seq .. id] = nil
  end
  if job.state < 3 and job.expires > 0 and job.attempt == 0 then
    if not expiring[id] or not score_is(expiring[id], job.expires) then say(id, 'does not expire') end
    expiring[id] = nil
  end
  if ended[job.state] then
    if ended[job.state][seq .. id] ~= job.finished then say(id, 'did not end then') end
    ended[job.state][seq .. id] = nil
  end
  if job.state == 3 then
    running[hex(job.lease) .. id] = true
    leases[hex(job.lease)] = true
    if job.asked then asked[hex(job.lease) .. id] = true end
    if not redis.call('ZSCORE', P .. 'leases', job.lease) then say(id, 'hangs on a lease without a copy') end
  elseif job.asked then
    say(id, 'does not run and is asked to stop')
  end
  if (job.payload > 1024) ~= (redis.call('HEXISTS', P .. 'bodies', id) == 1) then say(id, 'has a body or has none') end
end
local function none(left, what) for member in pairs(left) do say(member, what) end end
none(scheduled, 'is scheduled without a job')
none(expiring, 'expires without a job')
for state, left in pairs(ended) do none(left, 'ended as ' .. state .. ' without a job') end
for lease in pairs(leases) do
  for name, expected in pairs({ running = running, stopping = asked }) do
    for _, id in ipairs(redis.call('SMEMBERS', P .. name .. ':' .. lease)) do
      if not expected[lease .. id] then say(id, 'is ' .. name .. ' without a job') end
      expected[lease .. id] = nil
    end
  end
end
none(running, 'runs under no lease')
none(asked, 'is asked to stop and nobody hears')
for _, name in ipairs({ 'bodies', 'outputs', 'progress' }) do
  for id in pairs(hash(name)) do if not jobs[id] then say(id, 'has ' .. name .. ' and is gone') end end
end
for field in pairs(hash('attempts')) do
  local job = jobs[string.sub(field, 1, 16)]
  local number = u('>I8', field, 17)
  if not job or number > job.fence or number <= job.fence - 51 then say(field, 'is an attempt of no job') end
end

-- Unique keys: held by a job that may hold them, or for a time; and by each job that must hold its own.
local uniques, windows = hash('uniques'), zset(P .. 'windows')
for digest, holder in pairs(uniques) do
  local id, free = string.sub(holder, 1, 16), u('>I8', holder, 17)
  local job = jobs[id]
  if free == 0 then
    local lifetime = job and job.key and string.sub(job.key, 1, 16) == digest and string.sub(job.key, 17, 17)
    if not (lifetime == 's' and job.state < 3 or lifetime == 'e' and job.state <= 3) then say(id, 'holds a key in vain') end
    if windows[digest] then say(id, 'holds a key for no time, which has an end') end
  elseif not windows[digest] or not score_is(windows[digest], free) then
    say(id, 'holds a key that is not forgotten')
  end
end
for digest in pairs(windows) do
  if not uniques[digest] then say(digest, 'ends and no job holds it') end
end
for id, job in pairs(jobs) do
  local lifetime = job.key and string.sub(job.key, 17, 17)
  if lifetime == 'e' and job.state <= 3 or lifetime == 's' and job.state < 3 and job.fence == 0 then
    if string.sub(uniques[string.sub(job.key, 1, 16)] or '', 1, 16) ~= id then say(id, 'does not hold its key') end
  end
end

-- Records: each has its place by key, and one by instant if it is gone some day; its value stands apart if it is long.
local remembered, names, values, timed = hash('records'), zset(P .. 'record-keys'), hash('record-values'), zset(P .. 'record-expiry')
for key, record in pairs(remembered) do
  local _, _, expires, length = u('>I8I8I8I4', record)
  if not names[key] then say(key, 'is a record that is not listed') end
  if expires == 0 and timed[key] or expires > 0 and not (timed[key] and score_is(timed[key], expires)) then
    say(key, 'is gone at another time')
  end
  if length > 1024 and #(values[key] or '') ~= length or length <= 1024 and (values[key] or #record ~= 28 + length) then
    say(key, 'has its value elsewhere')
  end
  names[key], timed[key], values[key] = nil, nil, nil
end
none(names, 'is listed and no record')
none(timed, 'is gone some day and no record')
none(values, 'is the value of no record')
local meta, live = hash('meta'), hash('live')
for state = 0, 6 do
  local counted = tonumber(meta['c' .. state] or 0)
  local there = counts[state] or 0
  if counted ~= there then say('', 'counted ' .. counted .. ' jobs in state ' .. state .. ', there are ' .. there) end
end
for block, left in pairs(live) do
  local there = in_block[block] or 0
  if tonumber(left) ~= there then say('', 'block ' .. block .. ' has ' .. left .. ' jobs, there are ' .. there) end
  if tonumber(left) <= 0 and block ~= meta.block then say('', 'block ' .. block .. ' is empty and stays') end
  in_block[block] = nil
  if redis.call('EXISTS', P .. 'block:' .. block) == 0 then say('', 'block ' .. block .. ' is gone') end
  if not redis.call('ZSCORE', P .. 'blocks', block) then say('', 'block ' .. block .. ' has no place') end
end
none(in_block, 'names a block without a count')
if redis.call('ZCARD', P .. 'blocks') ~= redis.call('HLEN', P .. 'live') then say('', 'blocks without a count') end
local spent = 0
for entry in pairs(zset(P .. 'spent')) do spent = spent + u('>I8', entry, 9) end
if spent ~= tonumber(meta.spent or 0) then say('', spent .. ' permits are spent, counted ' .. (meta.spent or 'none')) end
if redis.call('XLEN', P .. 'transfers') > 0 then say('', 'transfers wait') end
if redis.call('EXISTS', P .. 'contents') == 1 then say('', 'contents of transfers stay') end
if redis.call('EXISTS', P .. 'none') == 1 then say('', 'none is there') end
return table.concat(wrong, '\n')
