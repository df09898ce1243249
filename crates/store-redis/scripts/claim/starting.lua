-- What jobs are when they start under this claim. A plain job is `first`, its record from its due instant on, and `label`.
-- A function makes the record of one whose payload stands apart; another, for all that are not plain, answers the length of
-- the payload and the record; a third the same for those with keys that have a short form.
-- Needs: keys, clock, records, gates. ARGV: those of jobs/claim.
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
      local is_gated = keyed >= FLAGS.gated
      begins[keyed] = char(STATE.running + (is_gated and FORM.gated_offset or FORM.keyed_offset),
        is_gated and not gates().is_counting and keyed + FLAGS.uncount or keyed)
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

  -- What the records of first attempts begin with, by the forms of jobs with keys.
  local firsts = {}

  local function brief(stored, form)
    local payload = read('>I4', stored, PLAIN.payload)
    if payload > MAX.inline then return other(records.expand(stored)) end
    local begins = firsts[form]
    if not begins then
      local is_uncounted = form ~= FORM.brief + FORM.brief_sort + STATE.ready % 8 and not gates().is_counting
      begins = char(form + STATE.running - STATE.ready + (is_uncounted and FORM.brief_uncounted or 0)) .. claimed
      firsts[form] = begins
    end
    return payload, begins .. sub(stored, PLAIN.due) .. label
  end

  return label, first, large, other, brief
end
