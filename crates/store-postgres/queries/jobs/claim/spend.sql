-- A part of the claim: spends permits of a queue's rate for the jobs that it has taken there; see Rate::spend in the core.
-- Entries that no longer count are removed, a bounded number at a time.
--
-- p_taken  how many jobs; NULL: none. The definition of a queue with a rate of which some were taken is locked
-- result   when its rules may leave more: when a pause ends, a gate opens, or, where no permit is left, when there is one (NULL:
--          none of them)
CREATE FUNCTION {function}(p_now int8, p_queue text, p_taken int8) RETURNS TABLE (o_next int8)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_rules record;
    v_step int8; v_back_at int8; v_permit_at int8;
BEGIN
    SELECT r.* INTO v_rules FROM queues AS q CROSS JOIN LATERAL {queues_rules}(q.config, p_now) AS r WHERE q.name = p_queue;
    o_next := least(
        v_rules.o_next,
        (
            SELECT g.open_at
            FROM gates AS g
            WHERE g.queue = p_queue AND g.open_at > 0 AND g.open_at > p_now AND g.open_at < 9223372036854775807
            ORDER BY g.open_at
            LIMIT 1
        )
    );
    IF v_rules.o_jobs IS NULL THEN
        RETURN NEXT;
        RETURN;
    END IF;
    p_now := greatest(p_now, clock_micros());
    IF p_taken > 0 THEN
        IF v_rules.o_shape = 'bucket' THEN
            SELECT later(
                greatest(p_now, max(s.back_at)), least(v_rules.o_step::numeric * p_taken, 9223372036854775807)::int8
            )
            INTO v_back_at
            FROM spent AS s
            WHERE s.queue = p_queue AND s.jobs = 0;
            DELETE FROM spent WHERE queue = p_queue AND jobs = 0;
            p_taken := 0;
        ELSIF v_rules.o_shape = 'fixed' THEN
            v_back_at := (p_now / v_rules.o_per + 1) * v_rules.o_per;
        ELSE
            v_step := greatest(v_rules.o_per / 1000, 1);
            v_back_at := ((p_now + v_rules.o_per - 1) / v_step + 1) * v_step;
        END IF;
        WITH back AS MATERIALIZED (
            SELECT s.back_at FROM spent AS s WHERE s.queue = p_queue AND s.back_at <= p_now ORDER BY s.back_at LIMIT 100
        )
        DELETE FROM spent AS s USING back AS b WHERE s.queue = p_queue AND s.back_at = ANY (ARRAY[b.back_at]);
        INSERT INTO spent AS s (queue, back_at, jobs) VALUES (p_queue, v_back_at, p_taken)
        ON CONFLICT (queue, back_at) DO UPDATE SET jobs = s.jobs + excluded.jobs;
    END IF;
    SELECT p.o_more_at INTO v_permit_at
    FROM {queues_permits}(p_now, p_queue, v_rules.o_jobs, v_rules.o_burst, v_rules.o_step) AS p
    WHERE p.o_jobs = 0;
    o_next := least(o_next, v_permit_at);
    RETURN NEXT;
END
$$;
