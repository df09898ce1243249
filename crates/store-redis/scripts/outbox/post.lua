-- Puts letters into the outbox of a queue, all of them or none. From then on what they say is accepted.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 how many places in the order of acceptance they need, 3- target and content of each letter.
-- Answer: {number of the first letter, the others follow, first place, instant of acceptance, how many letters waited
--   before}, all but the last as texts.
local meta = redis.call('HMGET', META, 'seq', 'letters')
local seq = math.max((tonumber(meta[1]) or 0) + 1, real)
-- Numbers grow with the time, so that they go on growing when a server has lost its newest ones.
local letter = math.max((tonumber(meta[2]) or 0) + 1, real)
local waiting, accepted = redis.call('XLEN', OUTBOX), string.format('%.0f', now)
local first, first_seq, last = string.format('%.0f', letter), string.format('%.0f', seq), nil
for i = 3, #ARGV, 2 do
  last = string.format('%.0f', letter + (i - 3) / 2)
  redis.call('XADD', OUTBOX, last .. '-0', 'to', ARGV[i], 'seq', first_seq, 'at', accepted, 'content', ARGV[i + 1])
end
redis.call('HSET', META, 'letters', last, 'seq', string.format('%.0f', seq + ARGV[2] - 1))
return { first, first_seq, accepted, waiting }
