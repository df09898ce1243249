-- Calls that were accepted, so that a repeat is known although its jobs may be gone: one key each, which the server
-- removes by itself. A call is 22 characters, then for how many milliseconds it is remembered; '' is none. Needs: keys.
local function call_key(call)
  return PREFIX .. 'call:' .. string.sub(call, 1, 22)
end

local function is_repeated(call)
  return call ~= '' and redis.call('EXISTS', call_key(call)) == 1
end

-- Remembers a call; false if it is remembered already.
local function remember_call(call)
  return call == '' or redis.call('SET', call_key(call), '1', 'PX', string.sub(call, 23), 'NX')
end
