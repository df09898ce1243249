-- Ends one attempt: the short form of jobs/complete, but with its output.
--
-- result  'done', 'fenced', or 'stale' when the definitions have changed
CREATE FUNCTION {function}(
    p_definitions int8, p_id uuid, p_queue text, p_fence int8, p_nonce int8, p_attempt int8, p_output bytea,
    p_keep int8
) RETURNS TABLE (o_answer text)
LANGUAGE plpgsql VOLATILE {found}
AS $$
#variable_conflict use_column
DECLARE
    v_job int8; v_key text;
BEGIN
    IF p_keep = 1 THEN
        WITH gone AS (
            DELETE FROM running AS r
            USING jobs AS j
            WHERE j.id = p_id AND j.queue = p_queue AND r.seq = ANY (ARRAY[j.seq]) AND r.fence = p_fence
                AND r.nonce = p_nonce AND p_definitions = (SELECT value FROM settings WHERE name = 'definitions')
            RETURNING r.seq, r.due_at, r.claimed_at, r.worker, r.progress, j.kind
        ), tally AS (
            INSERT INTO tallied (minute, times, cell, queue, kind)
            SELECT n.now / 60000000 * 60000000, 1, 64 + tally_bucket(n.now - g.claimed_at), p_queue, g.kind
            FROM gone AS g
            CROSS JOIN (SELECT clock_micros() AS now) AS n
        )
        INSERT INTO ended (
            seq, finished_at, due_at, fence, backoff, claimed_at, attempt, stalls, ambiguous, state, queue, worker, output,
            progress
        )
        SELECT seq, clock_micros(), due_at, p_fence, 0, claimed_at, p_attempt, 0, 0, 4, p_queue, worker, p_output, progress
        FROM gone
        RETURNING seq INTO v_job;
    ELSE
        WITH gone AS (
            DELETE FROM running AS r
            USING jobs AS j
            WHERE j.id = p_id AND j.queue = p_queue AND r.seq = ANY (ARRAY[j.seq]) AND r.fence = p_fence
                AND r.nonce = p_nonce AND p_definitions = (SELECT value FROM settings WHERE name = 'definitions')
            RETURNING r.seq, r.claimed_at, j.kind, j.ctid AS job
        ), forgotten AS (
            DELETE FROM attempts AS t USING gone AS g WHERE t.seq = ANY (ARRAY[g.seq]) AND p_fence > 1
        ), tally AS (
            INSERT INTO tallied (minute, times, cell, queue, kind)
            SELECT n.now / 60000000 * 60000000, 1, 64 + tally_bucket(n.now - g.claimed_at), p_queue, g.kind
            FROM gone AS g
            CROSS JOIN (SELECT clock_micros() AS now) AS n
        )
        -- No call changes a job that runs, so it is where it was.
        DELETE FROM jobs AS j USING gone AS g WHERE j.ctid = g.job RETURNING j.seq, j.key INTO v_job, v_key;
    END IF;
    IF found THEN
        o_answer := 'done';
        v_job := moves(p_queue, 3, 4, NULL, ARRAY[v_job], p_keep = 1, NULL, CASE WHEN p_keep = 0 THEN ARRAY[v_key] END, NULL, true);
    ELSE
        SELECT CASE WHEN value = p_definitions THEN 'fenced' ELSE 'stale' END INTO o_answer
        FROM settings
        WHERE name = 'definitions';
    END IF;
    RETURN NEXT;
END
$$;
