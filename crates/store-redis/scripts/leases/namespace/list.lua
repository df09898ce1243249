-- Reads records of leases, the newest first.
--
-- KEYS 1 leases, 2 lease-expiry, 3 lease-order
-- ARGV 1 clock, 2 begin before this number ('+inf': with the newest), 3 how many
-- Answers now and the number that the next page begins before, then for each lease its id, record and expiry.

local order = redis.call('ZREVRANGEBYSCORE', KEYS[3], ARGV[2], '-inf', 'WITHSCORES', 'LIMIT', 0, ARGV[3])
local found = {string.format('%.0f', clock.now), '(' .. (order[#order] or '0')}
if #order == 0 then
  return found
end
local leases = {}
for i = 1, #order, 2 do
  leases[#leases + 1] = order[i]
end
local records = redis.call('HMGET', KEYS[1], unpack(leases))
local expiries = redis.call('ZMSCORE', KEYS[2], unpack(leases))
for i, lease in ipairs(leases) do
  if records[i] and expiries[i] then
    found[#found + 1] = lease
    found[#found + 1] = records[i]
    found[#found + 1] = string.format('%.0f', tonumber(expiries[i]))
  end
end
return found
