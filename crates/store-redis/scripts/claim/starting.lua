-- What jobs are when they start under this claim. A plain job is `first`, its record from its due instant on, and `label`.
-- A function makes the record of one whose payload stands apart; another, for all that are not plain, answers the length of
-- the payload and the record.
-- Needs: keys, clock, records. ARGV: those of jobs/claim.
local function starting()
  local label, claimed = ARGV[4], ARGV[3] .. ARGV[2] .. clock.now8
  local claim, first = claimed .. label, char(FORM.first) .. claimed
  -- What all jobs of the same counters begin with after their flags, most of them fresh.
  local counters_before, start
  -- State and flags of records by the keys that they have, as flags.
  local begins = { [FLAGS.none] = '30' }

  local function begin_of(flags)
    local keyed = flags - flags % FLAGS.key
    if not begins[keyed] then
      begins[keyed] = char(STATE.running + (keyed >= FLAGS.gated and FORM.gated_offset or FORM.keyed_offset), keyed)
    end
    return begins[keyed]
  end

  local function large(record)
    return '30' .. BYTES.first .. sub(record, PLAIN.due, PLAIN.priority_end) .. BYTES.zero8
      .. sub(record, PLAIN.due, PLAIN.due_end) .. BYTES.zero8 .. sub(record, PLAIN.payload) .. claim
  end

  -- It has its long form.
  local function other(record)
    local counters = sub(record, RECORD.attempt, RECORD.fence_end)
    if counters ~= counters_before then
      local attempt, fence = read('>I4', record, RECORD.attempt), read('>I8', record, RECORD.fence)
      start = '-' .. pack('>I4', math.min(attempt + 1, 4294967295)) .. sub(record, RECORD.stalls, RECORD.backoff_end)
        .. pack('>I8', fence + 1)
      counters_before = counters
    end
    return read('>I4', record, RECORD.payload), begin_of(byte(record, RECORD.flags)) .. start
      .. sub(record, RECORD.due, records.content_end(record)) .. claim
  end

  return label, first, large, other
end
