-- Removes transfers that were delivered from the stream of a queue.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2- number of each, and the name under which its content was written, '' if none.
-- Answer: how many were still there.
local removed = 0
for i = 2, #ARGV, 2 do
  removed = removed + redis.call('XDEL', KEY.transfers, ARGV[i] .. '-0')
  if ARGV[i + 1] ~= '' then
    redis.call('HDEL', keys.contents, ARGV[i + 1])
  end
end
return removed
