-- Calls that were accepted, so that a repeat is known although its jobs may be gone: one key each, which the server
-- removes by itself. '' stands for no call. Needs: keys.
local calls = {
  is_repeated = function(call)
    return call ~= '' and redis.call('EXISTS', keys.call(call)) == 1
  end,

  -- Remembers a call; false if it is remembered already.
  remember = function(call)
    return call == '' or redis.call('SET', keys.call(call), '1', 'PX', sub(call, CALL.memory), 'NX')
  end,
}
