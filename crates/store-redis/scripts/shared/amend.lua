-- Changes that a person asks for, to one job after the other.
-- Needs: keys, records, batch, blocks. ARGV: 1 clock, 2 how many, 3- ids, then for each what it must still be, its state and its
-- fence in 1 and 8 bytes; nothing more where that does not matter.
-- Answer: two bytes for each: 'd' done, 'r' refused, 'h' another job holds its unique key or 'm' missing, and the state that
-- the job is in, or was in before it was removed; after them, for each 'h', the id of the holder. What is strange is refused.

-- Whether a job is as it was seen, if that matters.
local function is_seen(seen, record)
  return not seen or seen == char(byte(record)) .. sub(record, RECORD.fence, RECORD.fence_end)
end

-- Asks `change` about each record that is there. It answers the record as it is then, false to refuse (and who holds the key,
-- if that is why), or nothing if the job goes. An id that stands twice is found as the first time left it.
local function amend(change)
  local count = tonumber(ARGV[2])
  local found, strange = records.load(unpack(ARGV, 3, 2 + count))
  redis.call('ZCARD', KEY.cancelled)
  redis.call('ZCARD', KEY.scheduled)
  local changed, answers, holders = {}, {}, {}
  for i, record in ipairs(found) do
    local id = ARGV[2 + i]
    if changed[id] ~= nil then record = changed[id] end
    if record then
      local becomes, holder = false, nil
      if is_seen(ARGV[2 + count + i], record) then becomes, holder = change(id, record) end
      if becomes == false then
        answers[i] = (holder and 'h' or 'r') .. char(byte(record))
        holders[#holders + 1] = holder
      else
        changed[id] = becomes or false
        answers[i] = 'd' .. char(byte(becomes or record))
      end
    elseif strange[i] then
      answers[i] = 'r' .. records.strange_state(strange[i])
    else
      answers[i] = 'm-'
    end
  end
  -- Cancelling is how people make room.
  batch.write_anyway()
  blocks.write_released()
  return table.concat(answers) .. table.concat(holders)
end
