-- The record of a job: its forms and what can be read of it. Their fields are stated in format.rs.
-- The long form is RECORD. A job that was never claimed has a short one, FRESH; one that was PLAIN when it was claimed
--   keeps to a short one in its first attempt, FIRST, and if it completes in that attempt, DONE. Anything else that happens
--   to it makes the long form of it. Only accepting, promoting, claiming, beginning and settling know the short forms, which are
--   for jobs without any feature; all else sees the long one, by `records.load`. What is blocked has the long form.
-- A job with a key has the same forms under first bytes of its own. Short ones (FORM.brief) only if it is ready when it is
--   accepted and does not expire. `records.expand` and `records.stored` lead from the long form to the one that is stored, and back. Flags of FLAGS.keyed and more tell that it has a unique key, or one that it
--   takes turns by (FLAGS.gated and more), or both; without that they are as in others.
-- The first byte says the form. A record of a form that is not known here, or that is cut short, is strange: no script
--   changes it, counts it or takes its places away. A later layout takes first bytes from FORM.later on, of which the
--   lowest three bits are the state, so that it can be shown.
-- Texts are compared for equality only: the order of `<` depends on the server's locale.
-- Needs: keys.
local records = (function()
  -- The long form of the record of a first attempt, with its state and flags; `at` is how much later than in one that runs
  -- things stand.
  local function expand_first(record, start, at, finished8)
    local content_end = FIRST.block_end + at + read('>I4', record, FIRST.length + at)
    return start .. BYTES.first .. sub(record, FIRST.due + at, FIRST.priority_end + at) .. BYTES.zero8
      .. sub(record, FIRST.due + at, FIRST.due_end + at) .. finished8 .. sub(record, FIRST.payload + at, content_end)
      .. sub(record, FIRST.nonce + at, FIRST.claimed_end + at) .. sub(record, content_end + 1)
  end

  local function expand_fresh(record, form)
    local enqueued8, expiry8, at = sub(record, FRESH.due, FRESH.due_end), BYTES.zero8, FRESH.more
    if form % 8 >= 4 then
      enqueued8, at = sub(record, at, at + WIDTH.instant - 1), at + WIDTH.instant
    end
    if form % 4 >= 2 then
      expiry8, at = sub(record, at, at + WIDTH.instant - 1), at + WIDTH.instant
    end
    return #record > at + TAIL.block_end and (form % 2 == 1 and '2' or '1') .. BYTES.untouched
      .. sub(record, FRESH.due, FRESH.priority_end) .. expiry8 .. enqueued8 .. BYTES.zero8 .. sub(record, at)
  end

  -- Flags by sort of keys that short forms of jobs with keys have.
  local BRIEF_FLAGS = { [0] = FLAGS.none + FLAGS.gate, FLAGS.none + FLAGS.key, FLAGS.none + FLAGS.key + FLAGS.gate }

  -- The long form of the short record of a job with a key.
  local function expand_brief(record, form)
    local state, more = form % 8, 0
    if form >= FORM.brief + FORM.brief_uncounted then form, more = form - FORM.brief_uncounted, FLAGS.uncount end
    if form >= FORM.brief + FORM.brief_begun then form, more = form - FORM.brief_begun, more + FLAGS.begun end
    local flags = BRIEF_FLAGS[math.floor((form - FORM.brief) / FORM.brief_sort)] + more
    if state == STATE.running % 8 then
      return #record > FIRST.content and expand_first(record, char(STATE.running, flags), 0, BYTES.zero8)
    elseif more > 0 then
      return false
    elseif state == STATE.ready % 8 then
      return #record > PLAIN.content and char(STATE.ready, flags) .. BYTES.unclaimed
        .. sub(record, PLAIN.due, PLAIN.priority_end) .. BYTES.zero8 .. sub(record, PLAIN.due, PLAIN.due_end) .. BYTES.zero8
        .. sub(record, PLAIN.payload)
    end
    return state == STATE.completed % 8 and #record > DONE.content
      and expand_first(record, char(STATE.completed, flags), DONE.nonce - FIRST.nonce,
        sub(record, DONE.finished, DONE.finished_end))
  end

  -- The long form of a record, false if it is strange.
  local function expand(record)
    local form = byte(record) or 0
    if form < FORM.short then
      return form >= STATE.blocked and form <= STATE.cancelled and #record > RECORD.content and record
    elseif form <= FORM.fresh_end then
      return expand_fresh(record, form)
    elseif form == FORM.first or form == FORM.begun then
      return #record > FIRST.content and expand_first(record, form == FORM.first and '30' or '32', 0, BYTES.zero8)
    elseif form == FORM.done then
      return #record > DONE.content
        and expand_first(record, '40', DONE.nonce - FIRST.nonce, sub(record, DONE.finished, DONE.finished_end))
    elseif form >= FORM.keyed and form <= FORM.keyed_end then
      return #record > RECORD.content and char(form - FORM.keyed_offset) .. sub(record, RECORD.flags)
    elseif form >= FORM.gated and form <= FORM.gated_end then
      return #record > RECORD.content and char(form - FORM.gated_offset) .. sub(record, RECORD.flags)
    elseif form >= FORM.brief and form <= FORM.brief_end then
      return expand_brief(record, form)
    end
    return false
  end

  -- A record in the long form as it is stored.
  local function stored(record)
    local flags = byte(record, RECORD.flags)
    if flags < FLAGS.keyed then return record end
    return char(byte(record) + (flags >= FLAGS.gated and FORM.gated_offset or FORM.keyed_offset)) .. sub(record, RECORD.flags)
  end

  -- The state of a record in the long form, or as one with a key is stored, which has everything else at the same places.
  local function state_of(record)
    local first = byte(record)
    return first < FORM.later and first or STATE.blocked + first % 8
  end

  -- The records under ids, false where there is none or it is strange; and those that are strange, as they are stored.
  local function load(...)
    local found, strange = redis.call('HMGET', KEY.jobs, ...), {}
    for i = 1, #found do
      local stored = found[i]
      if stored then
        found[i] = expand(stored)
        if not found[i] then strange[i] = stored end
      end
    end
    return found, strange
  end

  -- The state of a strange record as a digit, 0 if it does not say.
  local function strange_state(stored)
    local form = byte(stored) or 0
    return form >= FORM.later and form % 8 <= 6 and char(48 + form % 8) or '0'
  end

  local function kind_of(record)
    local at = RECORD.block_end + CONTENT.kind
    return sub(record, at, at + byte(record, RECORD.content) - 1)
  end

  -- The last byte of the content; places of CLAIM count from there.
  local function content_end(record)
    return RECORD.block_end + read('>I4', record, RECORD.length)
  end

  -- How many bytes of the content its keys take, which are its end: first the one that it takes turns by, with its length
  -- behind it.
  local function keys_width(record)
    local flags = byte(record, RECORD.flags)
    local width = flags % FLAGS.gate >= FLAGS.key and WIDTH.unique or 0
    if flags < FLAGS.gated then return width end
    return width + 1 + (byte(record, content_end(record) - width) or 0)
  end

  local function lease_of(record)
    local at = content_end(record)
    return sub(record, at + CLAIM.lease, at + CLAIM.lease_end)
  end

  -- Number and nonce of the newest claim.
  local function fence_of(record)
    local at = content_end(record)
    return sub(record, RECORD.fence, RECORD.fence_end) .. sub(record, at + CLAIM.nonce, at + CLAIM.nonce_end)
  end

  return {
    expand = expand,
    stored = stored,
    state_of = state_of,
    load = load,
    strange_state = strange_state,
    kind_of = kind_of,
    content_end = content_end,
    keys_width = keys_width,
    lease_of = lease_of,
    fence_of = fence_of,
  }
end)()
