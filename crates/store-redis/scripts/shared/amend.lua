-- Changes that a person asks for, to one job after the other.
-- Needs: keys, record, lines, batch, blocks, places. ARGV: 1 clock, 2- ids.
-- Answer: two bytes for each: 'd' done, 'r' refused or 'm' missing, and the state that the job is in, or was in before
-- it was removed. What is strange is refused.

-- Asks `change` about each record that is there. It answers the record as it becomes, false to refuse, or nothing if the
-- job goes. An id that stands twice is found as the first time left it.
local function amend(change)
  local records, strange = load_records(unpack(ARGV, 2))
  redis.call('ZCARD', CANCELLED)
  redis.call('ZCARD', SCHEDULED)
  local jobs, changed, answers = batch('HSET', JOBS), {}, {}
  for i, record in ipairs(records) do
    local id = ARGV[1 + i]
    if changed[id] ~= nil then record = changed[id] end
    if record then
      local becomes = change(id, record)
      if becomes == false then
        answers[i] = 'r' .. sub(record, 1, 1)
      else
        changed[id] = becomes or false
        if becomes then add(jobs, id, becomes) end
        answers[i] = 'd' .. sub(becomes or record, 1, 1)
      end
    elseif strange[i] then
      answers[i] = 'r' .. strange_state(strange[i])
    else
      answers[i] = 'm-'
    end
  end
  -- Cancelling is how people make room.
  write_anyway()
  write_released()
  return table.concat(answers)
end
