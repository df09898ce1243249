-- The short form of jobs/hand_over: one plain job, and a claim in one queue.
--
-- $1 to $9     the parameters of jobs/enqueue_one
-- $10 to $20   those of jobs/claim/one
-- result       as there
SELECT c.*, e.o_answer
FROM set_config('lock_timeout', '100ms', true) AS s (value)
CROSS JOIN LATERAL {jobs_enqueue_one}(
    CASE WHEN s.value IS NOT NULL THEN $1 END, $2, $3, $4, $5, $6, $7, $8, $9
) AS e
CROSS JOIN LATERAL {jobs_claim_one}(
    CASE WHEN e.o_answer = 'stored' THEN $10 END, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20
) AS c
