-- Enters names of queues, and the layout of the namespace with the first. A removal that is about to take one of them off
-- the list does not.
--
-- KEYS 1 queues, 2 layout, 3 leaving
-- ARGV 1 the layout that the caller knows, then names
-- Answers the layout that is there. If that is another one, nothing was entered.

local known = tonumber(ARGV[1])
local found = tonumber(redis.call('GET', KEYS[2]) or known)
if found ~= known then
  return found
end
-- A removal first: a server whose memory is full takes what follows one, and leases are opened there as well.
redis.call('ZREM', KEYS[1], '')
redis.call('SETNX', KEYS[2], known)
local members = {}
for i = 2, #ARGV do
  members[#members + 1], members[#members + 2] = 0, ARGV[i]
end
redis.call('HDEL', KEYS[3], unpack(ARGV, 2))
redis.call('ZADD', KEYS[1], unpack(members))
return found
