-- Jobs of a queue that ended in a state, in the order in which they ended, after a place.
CREATE FUNCTION {function}(p_queue text, p_state int8, p_at int8, p_seq int8, p_limit int8)
RETURNS TABLE (o_id uuid, o_finished_at int8, o_seq int8)
LANGUAGE plpgsql STABLE {steady}
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT j.id, e.finished_at, e.seq
    FROM (
        SELECT seq, finished_at
        FROM ended
        WHERE hashtext(queue) = hashtext(p_queue) AND queue = p_queue AND state = p_state
            AND (finished_at, seq) > (p_at, p_seq)
        ORDER BY finished_at, seq
        LIMIT p_limit
    ) AS e
    JOIN jobs AS j ON j.seq = ANY (ARRAY[e.seq])
    ORDER BY e.finished_at, e.seq;
END
$$;
