-- A part of the claim: what the rules for keys leave of one key.
--
-- p_concurrency  how many jobs may run at once; NULL: any number
-- p_jobs, p_burst, p_step  as in queues/key_permits; p_jobs NULL: it has no rate
-- p_pause        of the key; NULL: none
-- result         how many jobs (NULL: any number); and, where that is none, when its gate opens: the end of time for an end or
--                a definition; else 0
CREATE FUNCTION {function}(
    p_now int8, p_queue text, p_key text, p_concurrency int8, p_jobs int8, p_burst int8, p_step int8, p_pause jsonb
) RETURNS TABLE (o_left int8, o_open_at int8)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_until int8 := CASE WHEN p_pause IS NOT NULL THEN coalesce((p_pause ->> 'until')::int8, 9223372036854775807) END;
    v_permits record;
BEGIN
    o_open_at := 0;
    IF v_until > p_now THEN
        o_left := 0; o_open_at := v_until;
        RETURN NEXT;
        RETURN;
    END IF;
    IF p_concurrency IS NOT NULL THEN
        SELECT greatest(p_concurrency - count(*), 0) INTO o_left
        FROM (SELECT 1 FROM gate_jobs AS j WHERE j.queue = p_queue AND j.key = p_key LIMIT p_concurrency) AS j;
        o_open_at := CASE o_left WHEN 0 THEN 9223372036854775807 ELSE 0 END;
    END IF;
    IF p_jobs IS NOT NULL THEN
        SELECT p.* INTO v_permits FROM {queues_key_permits}(p_now, p_queue, p_key, p_jobs, p_burst, p_step) AS p;
        o_left := least(o_left, v_permits.o_jobs);
        IF v_permits.o_jobs = 0 AND o_open_at = 0 THEN
            o_open_at := coalesce(v_permits.o_more_at, 9223372036854775807);
        END IF;
    END IF;
    RETURN NEXT;
END
$$;
