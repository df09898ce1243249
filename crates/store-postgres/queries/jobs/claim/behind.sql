-- A part of the claim: the first jobs behind a gate where priority is aged, of some kinds. Reads few of each level first, which is
-- enough unless many are of other kinds.
--
-- p_most     how many jobs
-- p_without  jobs that were taken before, or that other calls had locked
-- others     as in jobs/claim/aged
-- result     where each is, and its number, in their order
CREATE FUNCTION {function}(
    p_now int8, p_queue text, p_key text, p_kinds text[], p_most int8, p_worth int8, p_offset int8, p_without int8[]
) RETURNS TABLE (o_place tid, o_seq int8)
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_line text := '#' || p_key; v_ranks int8[]; v_each int8;
    v_places tid[]; v_seqs int8[];
BEGIN
    IF p_most <= 0 THEN
        RETURN;
    END IF;
    v_ranks := ARRAY(SELECT l.o_rank FROM {jobs_levels}(p_queue, ARRAY[v_line], p_offset) AS l);
    FOREACH v_each IN ARRAY ARRAY[p_most + 4, p_most + {passed_max}] LOOP
        SELECT array_agg(f.ctid), array_agg(f.seq) INTO v_places, v_seqs
        FROM (
            SELECT m.ctid, m.seq
            FROM (
                SELECT l.*, row_number() OVER w AS known, count(*) FILTER (WHERE l.nth = v_each) OVER w AS ends
                FROM unnest(v_ranks) AS p (rank)
                CROSS JOIN LATERAL (
                    SELECT r.ctid, r.seq, p.rank, r.due_at + (p.rank + 1) * p_worth AS aged, row_number() OVER () AS nth
                    FROM (
                        SELECT w.ctid, w.seq, w.due_at
                        FROM (SELECT v_line AS line) AS a
                        JOIN waiting AS w ON {level} AND ~w.priority = p.rank
                            AND w.seq <> ALL (p_without) AND (w.expires_at IS NULL OR w.attempt > 0 OR w.expires_at > p_now)
                        {turn}
                        LIMIT v_each
                    ) AS r
                ) AS l
                WINDOW w AS (ORDER BY l.aged, l.rank, l.seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
            ) AS m
            JOIN jobs AS j ON j.seq = ANY (ARRAY[m.seq])
            WHERE m.ends - (m.nth = v_each)::int4 = 0 AND m.known <= p_most + {passed_max} AND j.kind = ANY (p_kinds)
            ORDER BY m.known
            LIMIT p_most
        ) AS f;
        EXIT WHEN cardinality(v_seqs) = p_most;
    END LOOP;
    RETURN QUERY SELECT f.place, f.seq FROM unnest(v_places, v_seqs) AS f (place, seq);
END
$$;
