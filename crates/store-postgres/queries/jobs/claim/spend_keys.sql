-- A part of the claim: spends permits of keys for the jobs that they gave; see Rate::spend in the core. Entries of these keys that
-- no longer count are removed, a few at a time; maintenance removes those of keys that do not come back.
--
-- p_given  how many jobs of each key
-- p_per, p_shape, p_step  of the rate, as in queues/key_rules
CREATE FUNCTION {function}(
    p_now int8, p_queue text, p_keys text[], p_given int8[], p_per int8, p_shape text, p_step int8
) RETURNS TABLE (o_keys int8)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_step int8 := greatest(p_per / 1000, 1);
    v_backs int8[];
BEGIN
    SELECT
        count(*), array_agg(k.key), array_agg(k.given),
        array_agg(
            CASE p_shape
                WHEN 'bucket' THEN
                    later(
                        greatest(
                            p_now,
                            (SELECT max(s.back_at) FROM key_spent AS s WHERE s.queue = p_queue AND s.key = k.key AND s.jobs = 0)
                        ),
                        least(p_step::numeric * k.given, 9223372036854775807)::int8
                    )
                WHEN 'fixed' THEN (p_now / p_per + 1) * p_per
                ELSE ((p_now + p_per - 1) / v_step + 1) * v_step
            END
        )
    INTO o_keys, p_keys, p_given, v_backs
    FROM unnest(p_keys, p_given) AS k (key, given)
    WHERE k.given > 0;
    DELETE FROM key_spent
    WHERE ctid = ANY (
        ARRAY(
            SELECT o.ctid
            FROM unnest(p_keys) AS k (key)
            CROSS JOIN LATERAL (
                -- With a limit, so that each key is looked up, whatever statistics say.
                SELECT s.ctid
                FROM key_spent AS s
                WHERE s.queue = p_queue AND s.key = k.key AND (s.back_at <= p_now OR p_shape = 'bucket' AND s.jobs = 0)
                LIMIT 1000
            ) AS o
        )
    );
    INSERT INTO key_spent AS s (queue, key, back_at, jobs)
    SELECT p_queue, k.key, k.back_at, CASE p_shape WHEN 'bucket' THEN 0 ELSE k.given END
    FROM unnest(p_keys, p_given, v_backs) AS k (key, given, back_at)
    ON CONFLICT (queue, key, back_at) DO UPDATE SET jobs = s.jobs + excluded.jobs;
    RETURN NEXT;
END
$$;
