-- Puts transfers into the stream of the queue. From then on what they say is accepted.
-- Needs: keys, clock.
local posts = (function()
  local p, number, last = { first = '', seq = '', at = '', waiting = 0 }, nil, nil

  -- Begins where `seq` and `transfers` of META say, nil if they are not there. Changes nothing.
  function p.begin(seq, newest)
    -- The place is not kept for them: a target where others came first meanwhile puts them behind those.
    p.seq = string.format('%.0f', math.max((tonumber(seq) or 0) + 1, clock.real))
    -- Numbers grow with the time, so that they go on growing when a server has lost its newest ones.
    number = math.max((tonumber(newest) or 0) + 1, clock.real)
    p.first, p.at, p.waiting = string.format('%.0f', number), clock.now_text, redis.call('XLEN', KEY.transfers)
  end

  -- Posts a transfer: its 'content', or the 'name' under which that was written.
  function p.post(target, field, said)
    last = string.format('%.0f', number)
    number = number + 1
    redis.call('XADD', KEY.transfers, last .. '-0', 'to', target, 'seq', p.seq, 'at', p.at, field, said)
  end

  -- Notes the newest number. It comes when all are posted.
  function p.finish()
    redis.call('HSET', KEY.meta, 'transfers', last)
  end

  return p
end)()
