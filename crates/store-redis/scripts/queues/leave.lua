-- Takes the name of a queue off the list, in two steps: the keys of the queue are removed between them. If a program enters
-- the queue meanwhile (queues/enter), the name stays. Notes for maintenance stay too, and run out: a program that noted the
-- queue a moment ago and writes to it again does not repeat that.
--
-- KEYS 1 queues, 2 leaving, then agendas of duties
-- ARGV 1 name, 2 what tells this removal from others, 3 'begin', 'end', or 'stay' if the queue is not removed after all
-- Answers 1 if the step was done.

if ARGV[3] == 'begin' then
  -- A removal first: a server whose memory is full takes what follows one.
  redis.call('HDEL', KEYS[2], ARGV[1])
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
  return 1
end
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then
  return 0
end
redis.call('HDEL', KEYS[2], ARGV[1])
if ARGV[3] == 'stay' then
  return 1
end
redis.call('ZREM', KEYS[1], ARGV[1])
for i = 3, #KEYS do
  redis.call('ZREM', KEYS[i], ARGV[1])
end
return 1
