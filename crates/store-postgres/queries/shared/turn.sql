-- The order in which jobs have their turn.
ORDER BY ~w.priority, w.due_at, w.seq
