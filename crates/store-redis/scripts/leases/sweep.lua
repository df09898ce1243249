-- Forgets copies of leases that have run out and that no job hangs on in this queue: those that are named, and a few
-- more whose record the namespace may have lost.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2... leases
-- Answers 1 if copies stay here that have run out, else 0; then the places (from 1) of those named leases of which a copy
-- stays.

-- Copies that are looked at besides those that are named.
local MORE = 50

local function stays(lease)
  local expiry = redis.call('ZSCORE', KEY.leases, lease)
  if not expiry then
    return false
  end
  if tonumber(expiry) > clock.now or redis.call('SCARD', keys.of_lease('running:', lease)) > 0 then
    return true
  end
  redis.call('ZREM', KEY.leases, lease)
  return false
end

local staying = { 0 }
for i = 2, #ARGV do
  if stays(ARGV[i]) then
    staying[#staying + 1] = i - 1
  end
end
for _, lease in ipairs(redis.call('ZRANGEBYSCORE', KEY.leases, '-inf', clock.now, 'LIMIT', 0, MORE)) do
  stays(lease)
end
staying[1] = redis.call('ZCOUNT', KEY.leases, '-inf', clock.now) > 0 and 1 or 0
return staying
