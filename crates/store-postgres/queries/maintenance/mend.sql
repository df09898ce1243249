-- Compares gates with the rows that they are about, and mends what does not fit: a bounded number at a time, from where the call
-- before ended. All is looked at by one statement each, so what does not fit is not just on its way. What is wrong is mended by
-- telling the gates, as a call that moves jobs does.
--
-- p_limit    how many lines, running jobs and gates are looked at, at most
-- p_queue    the queue whose lines and gates are looked at: the first one after this
-- p_line     and of its lines those of which the number of the name is above this; p_gate: of its closed gates those after this
-- p_job      running jobs with numbers above this
-- result     where to go on, NULL: at the beginning; how many lines had no gate, how many jobs counted for their key and do not
--            run, and how many gates were closed without a reason; and the queues of all of them
CREATE FUNCTION {function}(p_limit int8, p_queue text, p_line int8, p_gate text, p_job int8)
RETURNS TABLE (
    o_queue text, o_line int8, o_gate text, o_job int8, o_lines int8, o_jobs int8, o_gates int8, o_queues text[]
)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros(); v_name text; v_config text; v_rules record;
    v_keys text[]; v_in_runs text[]; v_queues text[]; v_mosts int8[];
BEGIN
    o_lines := 0; o_jobs := 0; o_gates := 0; o_queues := '{}';
    -- Jobs that count for their key.
    WITH few AS MATERIALIZED (
        SELECT j.seq FROM gate_jobs AS j WHERE j.seq > p_job ORDER BY j.seq LIMIT p_limit
    ), gone AS (
        DELETE FROM gate_jobs
        WHERE seq = ANY (
            ARRAY(SELECT s.seq FROM few AS s WHERE (SELECT true FROM running AS r WHERE r.seq = s.seq) IS NULL)
        )
        RETURNING queue, key
    )
    SELECT
        (SELECT CASE WHEN count(*) = p_limit THEN max(s.seq) END FROM few AS s), count(*), array_agg(g.queue::text),
        array_agg(g.key::text)
    INTO o_job, o_jobs, v_queues, v_keys
    FROM gone AS g;
    IF o_jobs > 0 THEN
        PERFORM gates_tell(v_queues, v_keys, true);
        o_queues := o_queues || v_queues;
    END IF;
    SELECT q.name, q.config INTO v_name, v_config
    FROM queues AS q
    WHERE q.rules BETWEEN {rule_of_keys} AND {rules}
        AND (q.name > p_queue OR q.name = p_queue AND (p_line IS NOT NULL OR p_gate IS NOT NULL))
    ORDER BY q.name
    LIMIT 1;
    IF v_name IS NULL THEN
        RETURN NEXT;
        RETURN;
    END IF;
    o_queue := v_name;
    -- Lines, each by its first job. Not while much is to be told: then no claim comes.
    IF v_name > p_queue OR p_line IS NOT NULL THEN
        WITH RECURSIVE step AS (
            (
                SELECT hashtext(w.kind) AS number, w.queue, w.kind, 1 AS count FROM waiting AS w
                WHERE w.state = 2 AND hashtext(w.queue) = hashtext(v_name)
                    AND hashtext(w.kind) > CASE WHEN v_name = p_queue THEN p_line ELSE -2147483649 END
                ORDER BY hashtext(w.kind) LIMIT 1
            )
            UNION ALL
            SELECT n.number, n.queue, n.kind, s.count + 1
            FROM step AS s
            CROSS JOIN LATERAL (
                SELECT hashtext(w.kind) AS number, w.queue, w.kind FROM waiting AS w
                WHERE w.state = 2 AND hashtext(w.queue) = hashtext(v_name) AND hashtext(w.kind) > s.number
                ORDER BY hashtext(w.kind) LIMIT 1
            ) AS n
            WHERE s.count < p_limit
        ), lines AS (
            SELECT s.number, substr(s.kind, 2) AS key, s.queue = v_name AND s.kind LIKE '#%' AS is_one FROM step AS s
        )
        SELECT
            CASE WHEN count(*) = p_limit THEN max(l.number) END,
            array_agg(l.key) FILTER (
                WHERE l.is_one AND (SELECT true FROM gates AS g WHERE g.queue = v_name AND g.key = l.key) IS NULL
                    AND NOT EXISTS (
                        SELECT 1 FROM gate_reports AS r
                        WHERE r.queue = v_name AND NOT r.is_ended AND l.key = ANY (r.keys)
                    )
            )
        INTO o_line, v_keys
        FROM lines AS l
        WHERE (SELECT count(*) FROM (SELECT 1 FROM gate_reports AS r WHERE r.queue = v_name LIMIT 20) AS r) < 20;
        IF v_keys IS NOT NULL THEN
            PERFORM gates_tell(ARRAY[v_name], v_keys, false);
            o_lines := cardinality(v_keys); o_queues := o_queues || v_name;
        END IF;
    END IF;
    -- Gates that no instant opens, and those whose turn should be in a run.
    IF v_name > p_queue OR p_gate IS NOT NULL THEN
        SELECT
            array_agg(g.key::text) FILTER (WHERE g.open_at = 9223372036854775807),
            array_agg(g.key::text) FILTER (WHERE g.open_at = 0 AND g.in_run),
            CASE WHEN count(*) = p_limit THEN max(g.key)::text END
        INTO v_keys, v_in_runs, o_gate
        FROM (
            SELECT g.key, g.open_at, g.in_run
            FROM gates AS g
            WHERE g.queue = v_name AND g.key > CASE WHEN v_name = p_queue THEN p_gate ELSE '' END
            ORDER BY g.key
            LIMIT p_limit
        ) AS g;
        -- Under the lock of the definition no gate changes, and what ends meanwhile stays to be told. If a claim has it, they are
        -- looked at another time.
        SELECT q.config INTO v_config
        FROM queues AS q
        WHERE q.name = v_name AND (v_keys IS NOT NULL OR v_in_runs IS NOT NULL)
        FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT found THEN
            RETURN NEXT;
            RETURN;
        END IF;
        o_gates := (SELECT m.o_gates FROM {maintenance_mend_runs}(v_name, v_in_runs) AS m);
        IF o_gates > 0 THEN
            o_queues := o_queues || v_name;
        END IF;
        IF v_keys IS NULL THEN
            RETURN NEXT;
            RETURN;
        END IF;
        SELECT r.* INTO v_rules FROM {queues_key_rules}(v_config) AS r;
        SELECT m.o_mosts INTO v_mosts
        FROM {jobs_room}(
            v_now, v_name, v_keys, array_fill(1::int8, ARRAY[cardinality(v_keys)]), v_rules.o_concurrency, v_rules.o_jobs,
            v_rules.o_burst, v_rules.o_step, v_rules.o_pauses
        ) AS m;
        SELECT array_agg(k.key) INTO v_keys
        FROM unnest(v_keys, v_mosts) AS k (key, most)
        WHERE k.most > 0
            AND (SELECT g.open_at FROM gates AS g WHERE g.queue = v_name AND g.key = k.key) = 9223372036854775807
            AND NOT EXISTS (
                SELECT 1 FROM gate_reports AS r WHERE r.queue = v_name AND r.is_ended AND k.key = ANY (r.keys)
            );
        IF v_keys IS NOT NULL THEN
            PERFORM gates_tell(ARRAY[v_name], v_keys, true);
            o_gates := o_gates + cardinality(v_keys); o_queues := o_queues || v_name;
        END IF;
    END IF;
    RETURN NEXT;
END
$$;
