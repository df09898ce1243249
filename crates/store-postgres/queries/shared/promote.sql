-- Makes the jobs ready that `due` has chosen and locked. The statement answers how many.
moved AS (
    UPDATE waiting AS w SET state = 2 FROM due AS d WHERE w.seq = ANY (ARRAY[d.seq]) RETURNING w.seq, w.queue
)
SELECT coalesce(sum(moves(m.queue, 1, 2, NULL, m.jobs)), 0)
FROM (SELECT queue, array_agg(seq) AS jobs FROM moved GROUP BY queue) AS m
