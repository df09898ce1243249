-- Reads the rules of a definition, as they are at an instant. One that does not read has none; see QueueConfig::unreadable in
-- the core.
--
-- result  whether all of the queue is paused, and which kinds are; when the next pause ends (NULL: none does by itself); how many
--         jobs may run at once (NULL: any number); how many may start (NULL: any number) in which time, and, of a bucket, how
--         many at once and the time between two of them; whether it has limits, also for keys; the text of its rate; and what a level of
--         priority is worth, in microseconds (NULL: the higher one always goes first)
CREATE FUNCTION {function}(p_config text, p_now int8) RETURNS TABLE (
    o_is_paused bool, o_kinds text[], o_next int8, o_concurrency int8, o_jobs int8, o_per int8, o_shape text, o_burst int8,
    o_step int8, o_is_limited bool, o_rate text, o_aging int8
)
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_config jsonb;
    v_rate jsonb;
BEGIN
    BEGIN
        v_config := p_config::jsonb;
        v_rate := nullif(v_config -> 'rate', 'null');
        o_is_paused := false;
        -- Most have none, and to look for them costs more than all else that is read here.
        IF v_config -> 'pauses' IS NOT NULL THEN
            SELECT
                coalesce(bool_or(p.kind = '') FILTER (WHERE p.holds), false),
                array_agg(p.kind) FILTER (WHERE p.holds AND p.kind <> ''),
                min(p.until) FILTER (WHERE p.until > p_now)
            INTO o_is_paused, o_kinds, o_next
            FROM (
                SELECT k.kind, (k.pause ->> 'until')::int8 AS until, coalesce((k.pause ->> 'until')::int8 > p_now, true) AS holds
                FROM (
                    SELECT '' AS kind, nullif(v_config #> '{pauses,queue}', 'null') AS pause
                    UNION ALL
                    SELECT e.key, e.value FROM jsonb_each(v_config #> '{pauses,kinds}') AS e
                    UNION ALL
                    SELECT NULL, e.value FROM jsonb_each(v_config #> '{pauses,keys}') AS e
                ) AS k
                WHERE k.pause IS NOT NULL
            ) AS p;
        END IF;
        o_concurrency := (v_config ->> 'concurrency')::int8;
        o_rate := v_rate;
        o_aging := v_config ->> 'aging';
        o_is_limited := o_concurrency IS NOT NULL OR v_rate IS NOT NULL
            OR nullif(v_config #> '{keys,concurrency}', 'null') IS NOT NULL
            OR nullif(v_config #> '{keys,rate}', 'null') IS NOT NULL;
        IF v_rate IS NOT NULL THEN
            o_jobs := v_rate ->> 'jobs'; o_per := v_rate ->> 'per'; o_shape := v_rate ->> 'shape';
            IF o_shape = 'bucket' THEN
                o_burst := v_rate ->> 'burst';
                -- Rounded up, and at least a microsecond.
                o_step := greatest((o_per - 1) / greatest(o_jobs, 1) + 1, 1);
            END IF;
            IF (o_jobs > 0 AND o_per > 0 AND (o_shape IN ('sliding', 'fixed') OR o_burst > 0)) IS NOT TRUE THEN
                RAISE EXCEPTION 'a rate that makes no sense';
            END IF;
        END IF;
    EXCEPTION
        WHEN OTHERS THEN
            o_is_paused := false; o_kinds := NULL; o_next := NULL; o_concurrency := NULL; o_jobs := NULL;
            o_is_limited := false; o_rate := NULL; o_aging := NULL;
    END;
    o_kinds := coalesce(o_kinds, '{}');
    RETURN NEXT;
END
$$;
