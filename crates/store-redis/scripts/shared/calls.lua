-- Calls that were accepted, so that a repeat is known although its jobs may be gone: one key each, which the server
-- removes by itself. '' stands for no call. A call that stored nothing since other jobs hold the keys of all of its own is not
-- remembered: a repeat is tested anew. Needs: keys.
local calls = {
  is_repeated = function(call)
    return call ~= '' and redis.call('EXISTS', keys.call(call)) == 1
  end,

  -- Remembers a call, with the number of its first transfer if there are any; false if it is remembered already.
  remember = function(call, transfer)
    return call == '' or redis.call('SET', keys.call(call), transfer or '1', 'PX', sub(call, CALL.memory), 'NX')
  end,
}
