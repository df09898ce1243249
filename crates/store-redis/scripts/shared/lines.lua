-- Lines: fresh jobs of priority 0, of one kind each, in a list, which takes a quarter of the room and a tenth of the time
-- of a zset. A line only grows at its end and shrinks at its head, so it takes a job only if it comes behind the last one;
-- all others stand in the kind's zset, and a claim merges both. Members are the same: TURN.
-- A job that leaves a line otherwise than by a claim leaves its member behind: it is stale, as the record tells. Claims
-- pass stale members; they are counted by kind, so that maintenance clears a line that holds little else.
-- Needs: keys.
local lines = {
  note_stale = function(kind, by)
    if redis.call('HINCRBY', keys.stale, kind, by) <= 0 then
      redis.call('HDEL', keys.stale, kind)
    end
  end,

  -- Whether a record, in its long form, is that of a ready job which stands at this turn.
  stands_at = function(record, turn)
    return byte(record) == STATE.ready
      and sub(record, RECORD.due, RECORD.seq_end) == sub(turn, TURN.due, TURN.seq_end)
  end,
}
