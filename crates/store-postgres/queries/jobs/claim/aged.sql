-- A part of the claim: as jobs/claim/choose, where priority is aged. Each level of each kind is a part of the order, and parts
-- are merged in rounds: the order is known up to the last job that was read of a part which may have more.
--
-- p_worth    what a level is worth, in microseconds, and p_offset as in jobs/claim/levels
-- others     as in jobs/claim/choose
CREATE FUNCTION {function}(
    p_now int8, p_queue text, p_kinds text[], p_want int8, p_worth int8, p_offset int8, p_place int8, p_floor_queues int8[],
    p_floor_priorities int8[], p_floor_dues int8[]
) RETURNS TABLE (o_places tid[], o_jobs int8[], o_sizes int8[], o_bytes int8, o_met_locked bool)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_now ALIAS FOR p_now; v_queue ALIAS FOR p_queue;
    -- By part: its kind and rank, and where to go on in it.
    v_kinds text[]; v_ranks int8[]; v_dues int8[]; v_seqs int8[];
    -- How many jobs are looked at in a round, and how many of each part.
    v_page int8 := p_want; v_each int8; v_is_over bool;
    -- What was found, in order; of each job how many of its part were read up to it; and the place of the last.
    v_found tid[]; v_nths int8[]; v_count int8; v_aged int8; v_rank int8; v_seq int8;
BEGIN
    o_met_locked := false; o_bytes := 0;
    IF cardinality(p_kinds) > 8 THEN
        p_kinds := {kinds};
    END IF;
    SELECT
        array_agg(l.o_line), array_agg(l.o_rank), array_agg(coalesce(f.due, 0)), array_agg(-1)
    INTO v_kinds, v_ranks, v_dues, v_seqs
    FROM {jobs_levels}(p_queue, p_kinds, p_offset) AS l
    LEFT JOIN LATERAL (
        SELECT f.due
        FROM unnest(p_floor_queues, p_floor_priorities, p_floor_dues) AS f (queue, priority, due)
        WHERE f.queue = p_place AND ~f.priority = l.o_rank
        LIMIT 1
    ) AS f ON true;
    v_is_over := v_ranks IS NULL;
    WHILE NOT v_is_over AND coalesce(cardinality(o_jobs), 0) < p_want LOOP
        v_each := least(v_page, 4 + 2 * v_page / cardinality(v_ranks));
        SELECT array_agg(c.ctid), array_agg(c.nth), (array_agg(c.aged))[count(*)], (array_agg(c.rank))[count(*)],
            (array_agg(c.seq))[count(*)]
        INTO v_found, v_nths, v_aged, v_rank, v_seq
        FROM (
            SELECT m.*
            FROM (
                SELECT
                    l.*,
                    count(*) FILTER (WHERE l.nth = v_each) OVER (
                        ORDER BY l.aged, l.rank, l.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                    ) AS ends_before
                FROM unnest(v_kinds, v_ranks, v_dues, v_seqs) AS p (v_kind, rank, due_at, seq)
                CROSS JOIN LATERAL (
                    SELECT r.ctid, r.seq, p.rank, r.due_at + (p.rank + 1) * p_worth AS aged, row_number() OVER () AS nth
                    FROM (
                        {ready}
                            AND ~w.priority = p.rank AND (w.due_at, w.seq) > (p.due_at, p.seq)
                        {turn}
                        LIMIT v_each
                    ) AS r
                ) AS l
            ) AS m
            WHERE m.ends_before = 0
            ORDER BY m.aged, m.rank, m.seq
            LIMIT v_page
        ) AS c;
        v_count := coalesce(cardinality(v_found), 0);
        v_is_over := v_count = 0 OR v_count < v_page AND v_nths[v_count] < v_each;
        v_page := least(4 * v_page, greatest(p_want, 1000));
        CONTINUE WHEN v_count = 0;
        -- Behind the last one: of its rank higher levels come before it, and lower ones after it.
        SELECT
            array_agg(v_aged - (p.rank + 1) * p_worth),
            array_agg(CASE WHEN p.rank < v_rank THEN 9223372036854775807 WHEN p.rank = v_rank THEN v_seq ELSE -1 END)
        INTO v_dues, v_seqs
        FROM unnest(v_ranks) AS p (rank);
        {lock};
    END LOOP;
    o_met_locked := o_met_locked AND coalesce(cardinality(o_jobs), 0) < p_want;
    RETURN NEXT;
END
$$;
