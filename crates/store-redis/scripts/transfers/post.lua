-- Puts transfers into the stream of a queue, all of them or none. From then on what they say is accepted.
-- KEYS: those of the queue.
-- ARGV: 1 clock, 2 the call (shared/calls), 3 '1' if the caller has entered the queue in this call, 4 '1' if contents are
--   given; if not, they were written before, in the same transaction, 5- target and content of each transfer, or the name
--   under which its content was written.
-- Answer: nil if the call was accepted before; {} if the queue has to be entered first, see jobs/enqueue; else {number of
--   the first transfer, the others follow, first place in the order of acceptance, instant of acceptance, how many
--   transfers waited before}, all but the last as texts.
local field = ARGV[4] == '1' and 'content' or 'name'

local function post()
  if calls.is_repeated(ARGV[2]) then
    return false
  end
  local meta = redis.call('HMGET', KEY.meta, 'seq', 'transfers', 'version')
  if not (meta[1] or meta[3]) and ARGV[3] == '' then
    return {}
  end
  posts.begin(meta[1], meta[2])
  for i = 6, field == 'name' and #ARGV or 0, 2 do
    -- A command that fails does not end its transaction.
    if redis.call('HSTRLEN', keys.contents, ARGV[i]) == 0 then
      error('the content of a transfer was not written')
    end
  end
  for i = 5, #ARGV, 2 do
    posts.post(ARGV[i], field, ARGV[i + 1])
  end
  posts.finish()
  calls.remember(ARGV[2], posts.first)
  return { posts.first, posts.seq, posts.at, posts.waiting }
end

if field == 'content' then
  return post()
end
return run_or_undo(post, function(answer) return answer and answer[1] end, function()
  for i = 6, #ARGV, 2 do
    redis.call('HDEL', keys.contents, ARGV[i])
  end
end)
