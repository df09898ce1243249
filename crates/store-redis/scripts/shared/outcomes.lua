-- Outcomes of attempts, as settle.rs packs them. ARGV: 2 version of the definition that they were judged by, 4 the states
-- of which the queue keeps none, as their bytes, 5 how many outcomes, 6 how many runs of jobs that have fence and outcome
-- in common; then for each run what that is (OUTCOME) and how many jobs it has, then all ids (each once), by run, then
-- what follows for them, in order.
-- Needs: keys.
local outcomes = (function()
  local o, runs = { number = tonumber(ARGV[5]), dropped = {} }, tonumber(ARGV[6])
  o.is_stale = (redis.call('HGET', KEY.meta, 'version') or '0') ~= ARGV[2]
  -- Ids come after this argument.
  local before = 6 + 2 * runs
  for i = 1, #ARGV[4] do
    o.dropped[byte(ARGV[4], i)] = true
  end

  -- All ids.
  function o.ids()
    return unpack(ARGV, before + 1, before + o.number)
  end

  -- Calls `begin` with what each run has in common: number and nonce of the fence, what the record begins with then, and
  -- whether the output is above the cap, and whether the attempt goes on; then `each` with place, id, delay in micros, ending of
  -- the attempt and output of each of its jobs.
  function o.walk(begin, each)
    local i, more = 0, before + o.number + 1
    for run = 1, runs do
      local common, upto = ARGV[5 + 2 * run], i + ARGV[6 + 2 * run]
      local follows = byte(common, OUTCOME.follows) - byte('0')
      begin(sub(common, OUTCOME.fence, OUTCOME.fence_end), sub(common, OUTCOME.nonce, OUTCOME.nonce_end),
        sub(common, OUTCOME.state, OUTCOME.backoff_end), follows % 16 >= 8, follows >= 16)
      while i < upto do
        i = i + 1
        local delay, ending, output
        if follows ~= 0 then
          if follows % 2 >= 1 then delay, more = read('>I8', ARGV[more]), more + 1 end
          if follows % 4 >= 2 then ending, more = ARGV[more], more + 1 end
          if follows % 8 >= 4 then output, more = ARGV[more], more + 1 end
        end
        each(i, ARGV[before + i], delay, ending, output)
      end
    end
  end

  return o
end)()
