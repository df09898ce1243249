-- Jobs by their ids, with the attempts that are stored of them as a JSON array.
CREATE FUNCTION {function}(p_ids uuid[])
RETURNS TABLE (
    o_seq int8, o_id uuid, o_queue text, o_kind text, o_state int8, o_priority int2, o_due_at int8, o_enqueued_at int8,
    o_fence int8, o_attempt int8, o_stalls int8, o_ambiguous int8, o_backoff int8, o_cancel bool, o_claimed_at int8,
    o_worker text, o_finished_at int8, o_reason text, o_expires_at int8, o_retry text, o_timeout int8,
    o_stalls_max int8, o_tags text, o_progress bytea, o_output bytea, o_payload bytea,
    o_attempts text
)
LANGUAGE plpgsql STABLE {steady}
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT
        j.seq, j.id, j.queue::text, j.kind::text,
        coalesce(w.state, CASE WHEN r.seq IS NOT NULL THEN 3 END, e.state)::int8, j.priority,
        coalesce(w.due_at, r.due_at, e.due_at), j.enqueued_at, coalesce(w.fence, r.fence, e.fence),
        coalesce(w.attempt, r.attempt, e.attempt), coalesce(w.stalls, r.stalls, e.stalls),
        coalesce(w.ambiguous, r.ambiguous, e.ambiguous), coalesce(w.backoff, r.backoff, e.backoff),
        coalesce(r.cancel, false), coalesce(r.claimed_at, e.claimed_at), coalesce(r.worker, e.worker), e.finished_at, e.reason,
        j.expires_at, j.retry, j.timeout, j.stalls_max, j.tags::text, coalesce(w.progress, r.progress, e.progress), e.output,
        j.payload,
        (
            SELECT
                json_agg(
                    json_build_array(t.fence, t.number, t.worker, t.started_at, t.ended_at, t.ending, t.error)
                    ORDER BY t.fence
                )::text
            FROM attempts AS t
            WHERE t.seq = ANY (ARRAY[j.seq])
        )
    FROM unnest(p_ids) AS a (id)
    JOIN jobs AS j ON j.id = ANY (ARRAY[a.id])
    LEFT JOIN waiting AS w ON w.seq = ANY (ARRAY[j.seq])
    LEFT JOIN running AS r ON r.seq = ANY (ARRAY[j.seq])
    LEFT JOIN ended AS e ON e.seq = ANY (ARRAY[j.seq]);
END
$$;
