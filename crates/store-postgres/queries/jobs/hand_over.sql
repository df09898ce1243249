-- Stores jobs as jobs/enqueue does, and then makes a claim as jobs/claim does, in one transaction. The claim sees the
-- jobs, for each statement in the functions has its own look at what is there.
--
-- Each of the three takes something from the one before it, and so comes after it. Locks are waited for briefly: neither
-- the enqueue nor the claim should be held up by what holds up the other.
--
-- $1 to $14    the parameters of jobs/enqueue
-- $15 to $27   those of jobs/claim
-- result       the rows of jobs/claim, each with the answer of jobs/enqueue in its last column. Where that is not
--              'stored', there is one row for each of its answers, and nothing was claimed, for no lease was named
SELECT c.*, e.o_answer
FROM set_config('lock_timeout', '100ms', true) AS s (value)
CROSS JOIN LATERAL {jobs_enqueue}(
    CASE WHEN s.value IS NOT NULL THEN $1 END, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14
) AS e
CROSS JOIN LATERAL {jobs_claim}(
    CASE WHEN e.o_answer = 'stored' THEN $15 END, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27
) AS c
