-- Forgets one queue that holds no job: its definition and all that jobs have left behind. What stays are its records, the
-- copies of leases, which live as long as their workers, and the numbers of transfers, so that none is applied twice.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2 '1' if unique keys that are held for a time and records keep it
-- Answers {'rules', rule}: it uses one that this program does not know; {'full', jobs by state ...}: it holds jobs, or such keys or records; {'transfers'}: some to other queues wait here; {'more'}: it goes, and
-- the script has to come again; {'done'}; {'missing'}: it was not defined, and nothing is left of it either.

-- Kinds, and blocks, that one call forgets.
local KINDS_MAX, BLOCKS_MAX = 250, 500

local meta = redis.call('HMGET', KEY.meta, 'version', 'block', 'transfers', 'rules')
if (tonumber(meta[4]) or 0) > RULES.known then
  return { 'rules', meta[4] }
elseif redis.call('HLEN', KEY.jobs) > 0
  or ARGV[2] == '1' and (redis.call('ZCOUNT', keys.prefix .. NAME.windows, '(' .. clock.now_text, '+inf') > 0
    or redis.call('EXISTS', keys.prefix .. NAME.records) == 1) then
  return { 'full', unpack(redis.call('HMGET', KEY.meta, 'c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6')) }
elseif redis.call('XLEN', KEY.transfers) > 0 then
  return { 'transfers' }
end

-- Turns of jobs that have gone stand in lines, and may in zsets and among those that are parked.
local function forget_kinds(members)
  for _, member in ipairs(members) do
    local mark = sub(member, 1, #keys.ZSET)
    local kind = (mark == keys.ZSET or mark == keys.PARKED) and sub(member, #mark + 1) or member
    redis.call('UNLINK', keys.line(kind), keys.zset(kind), keys.parked(kind))
    redis.call('SREM', keys.kinds, member)
    redis.call('HDEL', keys.stale, kind)
  end
  return #members == KINDS_MAX
end

local function forget_blocks(numbers)
  for _, number in ipairs(numbers) do
    blocks.drop(number)
  end
  return #numbers == BLOCKS_MAX
end

if forget_kinds(redis.call('SRANDMEMBER', keys.kinds, KINDS_MAX))
  or forget_kinds(redis.call('HRANDFIELD', keys.stale, KINDS_MAX))
  or forget_blocks(redis.call('ZRANGE', KEY.blocks, 0, BLOCKS_MAX - 1)) then
  return { 'more' }
end
if meta[2] then blocks.drop(meta[2]) end
redis.call('UNLINK', KEY.meta, KEY.bodies, KEY.outputs, KEY.progress, KEY.attempts, KEY.live, KEY.scheduled, KEY.expiring,
  KEY.completed, KEY.dead, KEY.cancelled, KEY.transfers, keys.contents, keys.prefix .. NAME.uniques,
  keys.prefix .. NAME.windows, keys.spent())
redis.call('UNLINK', keys.prefix .. NAME.open, keys.prefix .. NAME.closed, keys.prefix .. NAME.busy,
  keys.prefix .. NAME.permits, keys.prefix .. NAME.permits_back)
redis.call('ZREMRANGEBYSCORE', KEY.leases, '-inf', clock.now)
if meta[3] then redis.call('HSET', KEY.meta, 'transfers', meta[3]) end
return { meta[1] and 'done' or 'missing' }
