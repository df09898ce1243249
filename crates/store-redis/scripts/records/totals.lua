-- Counts records of a queue, in the order of their keys. Changes nothing.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 where keys begin, as ranges by bytes say it, 3 how many are looked at.
-- Answer: {how many were looked at, how many of them are there, bytes of their values, key to go on after, '' if there are
--   no more}.
local most, count, bytes = tonumber(ARGV[3]), 0, 0
local names = redis.call('ZRANGEBYLEX', remembered.names, ARGV[2], '+', 'LIMIT', 0, most)
if #names == 0 then
  return { 0, 0, 0, '' }
end
local timed = redis.call('ZCARD', remembered.expiry) > 0 and redis.call('ZMSCORE', remembered.expiry, unpack(names)) or {}
local has_values = redis.call('HLEN', remembered.values) > 0
for i, key in ipairs(names) do
  local length = redis.call('HSTRLEN', remembered.heads, key)
  if length >= KEPT.length_end and not (timed[i] and tonumber(timed[i]) <= clock.now) then
    local value = length - KEPT.length_end
    -- A value that stands apart has nothing here; one that is empty has nothing there.
    if value == 0 and has_values then value = redis.call('HSTRLEN', remembered.values, key) end
    count, bytes = count + 1, bytes + value
  end
end
return { #names, count, bytes, #names == most and names[#names] or '' }
