-- A part of the claim: what the rules for keys leave of each gate of a round.
--
-- p_keys, p_parts  of each gate its key, and how many jobs it may give at most
-- p_concurrency, p_jobs and what follows  as in queues/key_rules
-- result           of each gate how many jobs it may give; until when its key is paused (NULL: it is not); how many more may run
--                  and how many may start (NULL: any number). And whether that is not far more than a gate may give
CREATE FUNCTION {function}(
    p_now int8, p_queue text, p_keys text[], p_parts int8[], p_concurrency int8, p_jobs int8, p_burst int8, p_step int8,
    p_pauses jsonb
) RETURNS TABLE (o_mosts int8[], o_untils int8[], o_free int8[], o_permits int8[], o_is_near bool)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    -- Keys that have running jobs; not where those are far more than the gates.
    v_running text[];
BEGIN
    IF p_concurrency IS NOT NULL THEN
        v_running := ARRAY(
            SELECT j.key::text FROM gate_jobs AS j WHERE j.queue = p_queue ORDER BY j.queue, j.key LIMIT 4 * cardinality(p_keys)
        );
        v_running := CASE WHEN cardinality(v_running) < 4 * cardinality(p_keys) THEN v_running END;
    END IF;
    SELECT
        array_agg(CASE WHEN r.until IS NULL THEN least(r.part, r.free, r.permits) ELSE 0 END), array_agg(r.until),
        array_agg(r.free), array_agg(r.permits), coalesce(bool_or(least(r.free, r.permits) < {ample} * r.part), false)
    INTO o_mosts, o_untils, o_free, o_permits, o_is_near
    FROM (
        SELECT
            a.part, CASE WHEN a.until > p_now THEN a.until END AS until,
            CASE
                WHEN p_concurrency IS NULL THEN NULL
                -- By a query, which is hashed. To count the jobs of a key takes longer than all the rest.
                WHEN v_running IS NOT NULL AND a.key NOT IN (SELECT r.key FROM unnest(v_running) AS r (key)) THEN p_concurrency
                ELSE
                    greatest(
                        p_concurrency - (
                            SELECT count(*)
                            FROM (SELECT 1 FROM gate_jobs AS j WHERE j.queue = p_queue AND j.key = a.key LIMIT p_concurrency) AS j
                        ),
                        0
                    )
            END AS free,
            CASE
                WHEN p_jobs IS NOT NULL THEN
                    (SELECT p.o_jobs FROM {queues_key_permits}(p_now, p_queue, a.key, p_jobs, p_burst, p_step) AS p)
            END AS permits
        FROM (
            SELECT
                k.key, k.part,
                CASE
                    WHEN p_pauses -> k.key IS NOT NULL THEN
                        coalesce((p_pauses -> k.key ->> 'until')::int8, 9223372036854775807)
                END AS until
            FROM unnest(p_keys, p_parts) AS k (key, part)
            OFFSET 0
        ) AS a
        OFFSET 0
    ) AS r;
    RETURN NEXT;
END
$$;
