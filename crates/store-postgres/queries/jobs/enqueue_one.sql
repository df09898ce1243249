-- Accepts one plain job: the short form of jobs/enqueue; see accept_plain in migrations/0003_inner.
--
-- p_definitions  the version of the queues' definitions by which the caller has checked the payload
-- p_*            as in accept_plain
-- result         its answer
CREATE FUNCTION {function}(
    p_definitions int8, p_id uuid, p_queue text, p_kind text, p_payload bytea, p_priority int8, p_spec text, p_tags text,
    p_call uuid
) RETURNS TABLE (o_answer text)
LANGUAGE plpgsql VOLATILE {found}
AS $$
BEGIN
    o_answer := accept_plain(
        clock_micros(), p_id, p_queue, p_kind, p_payload, p_priority, p_spec, p_tags, p_call, p_definitions
    );
    RETURN NEXT;
END
$$;
