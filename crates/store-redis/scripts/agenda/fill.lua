-- Enters names of queues into an agenda, unless they are there: their visits are spread evenly over a span.
--
-- KEYS 1 agenda
-- ARGV 1 clock, 2 the span in micros, 3 how many names there are in all, 4 how many of them came before, then names
-- Answers nothing.

local entries = {}
for i = 5, #ARGV do
  local place = ARGV[4] + i - 4
  entries[#entries + 1] = string.format('%.0f', clock.now + ARGV[2] * place / ARGV[3])
  entries[#entries + 1] = ARGV[i]
end
-- A removal first: a server whose memory is full takes what follows one.
redis.call('ZREM', KEYS[1], '')
redis.call('ZADD', KEYS[1], 'NX', unpack(entries))
