-- Makes the jobs ready that `due` has chosen and locked. The statement answers how many.
moved AS (
    UPDATE waiting AS w SET state = 2 FROM due AS d WHERE w.seq = ANY (ARRAY[d.seq]) RETURNING w.seq, w.queue
)
SELECT coalesce(sum(moves(NULL, 1, 2, NULL, m.jobs, true, m.queues)), 0)
FROM (SELECT array_agg(seq) AS jobs, array_agg(queue::text) AS queues FROM moved HAVING count(*) > 0) AS m
