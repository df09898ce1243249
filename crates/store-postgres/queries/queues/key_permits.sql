-- How many jobs of a key its rate permits at an instant, as queues/permits says it of a queue. By an expression, so that no plan
-- walks the permits of all keys by their instants.
CREATE FUNCTION {function}(p_now int8, p_queue text, p_key text, p_jobs int8, p_burst int8, p_step int8)
RETURNS TABLE (o_jobs int8, o_more_at int8)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_full_at int8;
BEGIN
    IF p_burst IS NULL THEN
        SELECT greatest(p_jobs - coalesce(sum(s.jobs), 0), 0), min(s.back_at) INTO o_jobs, o_more_at
        FROM key_spent AS s
        WHERE s.queue = p_queue AND s.key = p_key AND s.back_at + 0 > p_now AND s.jobs > 0;
    ELSE
        SELECT coalesce(max(s.back_at), p_now) INTO v_full_at
        FROM key_spent AS s
        WHERE s.queue = p_queue AND s.key = p_key AND s.back_at + 0 > p_now AND s.jobs = 0;
        o_jobs := greatest(p_burst - (v_full_at - p_now) / p_step - ((v_full_at - p_now) % p_step > 0)::int4, 0);
        o_more_at := CASE WHEN o_jobs < p_burst THEN v_full_at - (p_burst - o_jobs - 1) * p_step END;
    END IF;
    RETURN NEXT;
END
$$;
