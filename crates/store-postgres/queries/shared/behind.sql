-- Only what lies behind a place of the order, up to a rank.
AND (~w.priority, w.due_at, w.seq) > (v_rank, v_due_at, v_seq) AND ~w.priority < v_rank_end
