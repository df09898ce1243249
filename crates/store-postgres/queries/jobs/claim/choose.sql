-- A part of the claim: locks the ready jobs of one queue whose turn it is, over several kinds. Locks only what is taken,
-- and passes over what other calls have locked.
--
-- Each round reads a few jobs of each kind and merges them. The order is known up to the last job that was read of a kind
-- which may have more. Up to there jobs are locked, and the next round goes on behind them.
--
-- p_want     how many jobs; at least one
-- p_place    the place of the queue in p_floor_queues, or 0 to look from the beginning; p_floor_* as in jobs/claim
-- result     where the jobs are, their numbers and sizes (NULL: none); and whether other calls had locked some
CREATE FUNCTION {function}(
    p_now int8, p_queue text, p_kinds text[], p_want int8, p_place int8, p_floor_queues int8[], p_floor_priorities int8[],
    p_floor_dues int8[]
) RETURNS TABLE (o_places tid[], o_jobs int8[], o_sizes int8[], o_bytes int8, o_met_locked bool)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_now ALIAS FOR p_now; v_queue ALIAS FOR p_queue;
    -- Ranges of the order, each from a place on up to the rank of the next one; and where to go on in this one.
    v_range_ranks int8[] := '{-32769}'; v_range_dues int8[] := '{0}';
    v_rank int8; v_due_at int8; v_seq int8; v_rank_end int8; v_is_over bool;
    -- How many jobs are looked at in a round, and how many of each of the kinds that count.
    v_page int8 := p_want; v_kinds text[]; v_each int8; v_is_bounded bool;
    -- What was found, in order, and each job's number among those of its kind.
    v_found tid[]; v_seqs int8[]; v_ranks int8[]; v_dues int8[]; v_nths int8[]; v_count int8;
BEGIN
    o_met_locked := false;
    IF p_place = ANY (p_floor_queues) THEN
        -- Above the first floor, and all that lies behind one.
        SELECT v_range_ranks || array_agg(~f.priority), v_range_dues || array_agg(f.due) INTO v_range_ranks, v_range_dues
        FROM unnest(p_floor_queues, p_floor_priorities, p_floor_dues) AS f (queue, priority, due)
        WHERE f.queue = p_place;
    ELSIF cardinality(p_kinds) > 8 THEN
        p_kinds := {kinds};
    END IF;
    FOR i IN 1 .. cardinality(v_range_ranks) LOOP
        v_rank := v_range_ranks[i]; v_due_at := v_range_dues[i]; v_seq := -1;
        v_rank_end := coalesce(v_range_ranks[i + 1], 32768);
        v_is_over := cardinality(p_kinds) = 0;
        WHILE NOT v_is_over AND coalesce(cardinality(o_jobs), 0) < p_want LOOP
            v_kinds := p_kinds;
            v_is_bounded := false;
            IF cardinality(p_kinds) > 4 * v_page THEN
                -- Of more kinds than jobs, those that come first. The order is known up to the first job of the last one.
                SELECT array_agg(f.kind), array_agg(f.rank), array_agg(f.due_at), array_agg(f.seq)
                INTO v_kinds, v_ranks, v_dues, v_seqs
                FROM (
                    SELECT k.v_kind AS kind, l.rank, l.due_at, l.seq
                    FROM unnest(p_kinds) AS k (v_kind)
                    CROSS JOIN LATERAL (
                        {ready}
                            {behind}
                        {turn}
                        LIMIT 1
                    ) AS l
                    ORDER BY l.rank, l.due_at, l.seq
                    LIMIT v_page
                ) AS f;
                EXIT WHEN v_kinds IS NULL;
                v_is_bounded := cardinality(v_kinds) = v_page;
            END IF;
            v_each := least(v_page, 4 + 2 * v_page / cardinality(v_kinds));
            SELECT array_agg(c.ctid), array_agg(c.seq), array_agg(c.rank), array_agg(c.due_at), array_agg(c.nth)
            INTO v_found, v_seqs, v_ranks, v_dues, v_nths
            FROM (
                SELECT m.*
                FROM (
                    SELECT
                        l.*,
                        count(*) FILTER (WHERE l.nth = v_each) OVER (
                            ORDER BY l.rank, l.due_at, l.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                        ) AS ends_before
                    FROM unnest(v_kinds) AS k (v_kind)
                    CROSS JOIN LATERAL (
                        SELECT r.*, row_number() OVER () AS nth
                        FROM (
                            {ready}
                                {behind}
                            {turn}
                            LIMIT v_each
                        ) AS r
                    ) AS l
                ) AS m
                WHERE m.ends_before = 0
                    AND (
                        NOT v_is_bounded
                        OR (m.rank, m.due_at, m.seq) <= (v_ranks[v_page], v_dues[v_page], v_seqs[v_page])
                    )
                ORDER BY m.rank, m.due_at, m.seq
                LIMIT v_page
            ) AS c;
            v_count := coalesce(cardinality(v_found), 0);
            -- Those that came first by the look before may have been taken since: then there are more behind them.
            v_is_over := NOT v_is_bounded AND (v_count = 0 OR v_count < v_page AND v_nths[v_count] < v_each);
            -- Behind those that other calls have there are probably more of theirs.
            v_page := least(4 * v_page, greatest(p_want, 1000));
            CONTINUE WHEN v_count = 0;
            v_rank := v_ranks[v_count]; v_due_at := v_dues[v_count]; v_seq := v_seqs[v_count];
            {lock};
        END LOOP;
    END LOOP;
    o_bytes := coalesce(o_bytes, 0);
    o_met_locked := o_met_locked AND coalesce(cardinality(o_jobs), 0) < p_want;
    RETURN NEXT;
END
$$;
