-- Reads transfers that wait in the stream of a queue, in order: a bounded number of transfers and bytes.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 number of the transfer after which to begin, 3- the targets to read transfers for; none means all.
-- Answer: {number to go on after, '' if no more wait, {number, target, place, instant of acceptance, 'content' or 'name',
--   what it says or the name under which that was written, ...}}.
local LOOKED_AT_MAX, AT_ONCE, BYTES_MAX = 200, 4, 2097152
local targets = #ARGV > 2 and {} or nil
for i = 3, #ARGV do
  targets[ARGV[i]] = true
end
local after, transfers, looked_at, bytes = ARGV[2], {}, 0, 0
while looked_at < LOOKED_AT_MAX do
  local found = redis.call('XRANGE', KEY.transfers, '(' .. after .. '-0', '+', 'COUNT', AT_ONCE)
  for _, entry in ipairs(found) do
    local fields = entry[2]
    after, looked_at, bytes = string.match(entry[1], '^%d+'), looked_at + 1, bytes + #fields[8]
    if not targets or targets[fields[2]] then
      local n, length = #transfers, fields[7] == 'name' and redis.pcall('HSTRLEN', keys.contents, fields[8])
      -- What does not read is found by the caller.
      bytes = bytes + (tonumber(length) or 0)
      transfers[n + 1], transfers[n + 2], transfers[n + 3] = after, fields[2], fields[4]
      transfers[n + 4], transfers[n + 5], transfers[n + 6] = fields[6], fields[7], fields[8]
    end
    if bytes >= BYTES_MAX then
      return { after, transfers }
    end
  end
  if #found < AT_ONCE then
    return { '', transfers }
  end
end
return { after, transfers }
