-- Notes queues that maintenance has to visit in every round for a while: something was written there that it looks for.
--
-- KEYS the notes of each duty
-- ARGV 1 clock, 2 for how many micros, then for each note which key (its place) and the queue
-- Answers nothing.

local till = clock.expiry_after(ARGV[2])
local by_key = {}
for i = 3, #ARGV, 2 do
  local key = KEYS[tonumber(ARGV[i])]
  local values = by_key[key] or {}
  by_key[key] = values
  values[#values + 1], values[#values + 2] = till, ARGV[i + 1]
end
for key, values in pairs(by_key) do
  -- A removal first: a server whose memory is full takes what follows one, and jobs end there as well.
  redis.call('ZREM', key, '')
  redis.call('ZADD', key, 'GT', unpack(values))
end
