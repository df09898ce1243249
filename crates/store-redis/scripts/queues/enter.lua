-- Enters names of queues.
--
-- KEYS 1 queues
-- ARGV names
-- Answers nothing.

-- A removal first: a server whose memory is full takes what follows one, and leases are opened there as well.
redis.call('ZREM', KEYS[1], '')
local members = {}
for i, name in ipairs(ARGV) do
  members[2 * i - 1], members[2 * i] = 0, name
end
redis.call('ZADD', KEYS[1], unpack(members))
