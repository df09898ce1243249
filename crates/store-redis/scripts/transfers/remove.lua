-- Removes transfers that were delivered from the stream of a queue.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2- numbers.
-- Answer: how many were still there.
local ids = {}
for i = 2, #ARGV do
  ids[i - 1] = ARGV[i] .. '-0'
end
return redis.call('XDEL', KEY.transfers, unpack(ids))
