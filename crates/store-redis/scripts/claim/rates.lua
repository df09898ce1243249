-- The rate of a queue: what it permits now, and what is kept of that when jobs start. The arithmetic is that of the core
-- (queue/rate.rs); the numbers are whole and below 2^53, so that it is exact.
-- Of a bucket `full` in META is when it is full again. Of other rates the zset `spent` has the permits that are out, by the
-- instant at which they come back (SPENT), and `spent` in META is their sum: a claim need not read them all.
-- `of` makes what a rate is to this claim: `left` is how many jobs it permits, `more_at` when there are more, and
-- `spend(jobs)` keeps that so many start, which changes both.
-- Needs: keys, clock.
local function rates()
  -- Into how many steps the time of a sliding rate is divided; how many entries one script removes.
  local STEPS, BACK_MAX = 1000, 2000
  local now, fmod = clock.now, math.fmod

  -- Divides and rounds up. The operator of Lua would round the quotient first.
  local function divided(number, by)
    local rest = fmod(number, by)
    return (number - rest) / by + (rest > 0 and 1 or 0)
  end

  -- The next multiple of a step after an instant.
  local function aligned(micros, step)
    return micros - fmod(micros, step) + step
  end

  -- `keep` is told when the bucket is full again.
  local function bucket(rate, full, keep)
    local r, step = {}, math.max(1, divided(rate.per, rate.jobs))
    local full_at = math.max(now, tonumber(full) or 0)

    local function look()
      r.left = math.max(0, rate.burst - divided(full_at - now, step))
      r.more_at = full_at - (rate.burst - r.left - 1) * step
    end

    function r.spend(jobs)
      full_at = full_at + step * jobs
      keep(full_at)
      look()
    end

    look()
    return r
  end

  -- When permits come back that are spent now.
  local function back_at_of(rate)
    return rate.shape == 'fixed' and aligned(now, rate.per)
      or aligned(now + rate.per - 1, math.max(1, math.floor(rate.per / STEPS)))
  end

  -- The first of the permits that come back, with its instant; nothing if none is out.
  local function first_entry()
    return redis.call('ZRANGE', keys.spent(), '0', '0', 'WITHSCORES')
  end

  -- Removes entries whose permits have come back. Answers how many are still out, of so many.
  local function take_back(out)
    local back = redis.call('ZRANGEBYSCORE', keys.spent(), '-inf', clock.now_text, 'LIMIT', '0', BACK_MAX)
    for _, entry in ipairs(back) do
      out = out - read('>I8', entry, SPENT.jobs)
    end
    redis.call('ZREMRANGEBYRANK', keys.spent(), '0', #back - 1)
    redis.call('HSET', KEY.meta, 'spent', text_of(math.max(0, out)))
    return out
  end

  -- How many permits are out, and when the next of them come back. That has passed while more entries have come back than one
  -- script removes.
  local function still_out(spent)
    -- Without a sum the entries are those of a queue that was removed by a program which did not know them.
    if not spent then redis.call('UNLINK', keys.spent()) end
    local out, first = tonumber(spent) or 0, first_entry()
    if first[1] and tonumber(first[2]) <= now then
      out = take_back(out)
      first = first_entry()
    end
    -- Without entries nothing would ever come back.
    return first[1] and math.max(0, out) or 0, tonumber(first[2])
  end

  local function window(rate, spent)
    local out, first_at = still_out(spent)
    local r = { left = math.max(0, rate.jobs - out), more_at = first_at }
    -- Nothing before all that has come back is counted; the caller comes again at once.
    if first_at and first_at <= now then r.left = 0 end

    function r.spend(jobs)
      local back_at = back_at_of(rate)
      local score, more = text_of(back_at), jobs
      local entry = redis.call('ZRANGEBYSCORE', keys.spent(), score, score)[1]
      if entry then
        more = more + read('>I8', entry, SPENT.jobs)
        redis.call('ZREM', keys.spent(), entry)
      end
      redis.call('ZADD', keys.spent(), score, pack('>I8I8', back_at, more))
      redis.call('HSET', KEY.meta, 'spent', text_of(out + jobs))
      r.left, r.more_at = math.max(0, r.left - jobs), math.min(first_at or back_at, back_at)
    end

    return r
  end

  local function of(rate, spent, full)
    local function keep(full_at) redis.call('HSET', KEY.meta, 'full', text_of(full_at)) end
    return rate.shape == 'bucket' and bucket(rate, full, keep) or window(rate, spent)
  end

  return { of = of, bucket = bucket, back_at = back_at_of }
end
