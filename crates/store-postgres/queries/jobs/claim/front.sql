-- A part of the claim: the first jobs behind the gates of a round.
--
-- p_want           how many jobs in all
-- p_keys, p_mosts  of each gate its key, and how many jobs it may give; p_are_single: none more than one
-- p_out            jobs that are passed over
-- p_worth, p_offset  as in jobs/claim/keyed
-- result           of each job, in the order of the gates, where it is, its number, the place of its gate and its key; and how
--                  many were seen behind that gate, one more than it may give where there are so many (NULL: that is not known)
CREATE FUNCTION {function}(
    p_now int8, p_queue text, p_kinds text[], p_want int8, p_keys text[], p_mosts int8[], p_are_single bool, p_out int8[],
    p_worth int8, p_offset int8
) RETURNS TABLE (o_found tid[], o_jobs int8[], o_gates int8[], o_keys text[], o_seen int8[])
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    -- Whether all are live and of one of the kinds, and whether that is known; else their kinds have to be looked up.
    v_is_whole bool; v_is_known bool;
BEGIN
    IF p_worth IS NOT NULL THEN
        SELECT array_agg(f.place), array_agg(f.seq), array_agg(f.gate), array_agg(f.key) INTO o_found, o_jobs, o_gates, o_keys
        FROM (
            SELECT l.o_place AS place, l.o_seq AS seq, a.gate, a.key
            FROM unnest(p_keys, p_mosts) WITH ORDINALITY AS a (key, most, gate)
            CROSS JOIN LATERAL {jobs_behind}(p_now, p_queue, a.key, p_kinds, a.most, p_worth, p_offset, p_out) AS l
            LIMIT p_want
        ) AS f;
        RETURN NEXT;
        RETURN;
    END IF;
    IF p_are_single THEN
        -- By one pass over all of them, two of each: one for each gate costs as much as to read its jobs.
        SELECT
            array_agg(f.ctid), array_agg(f.seq), array_agg(f.gate), array_agg(f.key),
            array_agg(CASE WHEN f.after = f.gate THEN 2::int8 ELSE 1 END), bool_and(f.fits), count(f.fits) = count(*)
        INTO o_found, o_jobs, o_gates, o_keys, o_seen, v_is_whole, v_is_known
        FROM (
            SELECT l.*
            FROM (
                SELECT l.*, a.gate, a.key, lag(a.gate) OVER () AS before, lead(a.gate) OVER () AS after
                FROM unnest(p_keys, p_mosts) WITH ORDINALITY AS a (key, most, gate)
                CROSS JOIN LATERAL (
                    SELECT
                        w.ctid, w.seq,
                        (w.expires_at IS NULL OR w.attempt > 0 OR w.expires_at > p_now) AND w.of_kind = ANY (p_kinds) AS fits
                    FROM waiting AS w
                    -- By a query, which is hashed, where a comparison with each element would be made for each job; so below.
                    WHERE {line} AND (cardinality(p_out) = 0 OR w.seq NOT IN (SELECT o.seq FROM unnest(p_out) AS o (seq)))
                    {turn}
                    LIMIT 2
                ) AS l
                WHERE a.most > 0
            ) AS l
            -- The second ones only say that there is one.
            WHERE l.before IS DISTINCT FROM l.gate
            LIMIT p_want
        ) AS f;
    ELSE
        SELECT
            array_agg(f.ctid), array_agg(f.seq), array_agg(f.gate), array_agg(f.key), array_agg(f.seen), bool_and(f.fits),
            count(f.fits) = count(*)
        INTO o_found, o_jobs, o_gates, o_keys, o_seen, v_is_whole, v_is_known
        FROM (
            SELECT l.*, a.gate, a.key
            FROM unnest(p_keys, p_mosts) WITH ORDINALITY AS a (key, most, gate)
            CROSS JOIN LATERAL (
                SELECT r.*, row_number() OVER () AS nth, count(*) OVER () AS seen
                FROM (
                    SELECT
                        w.ctid, w.seq,
                        (w.expires_at IS NULL OR w.attempt > 0 OR w.expires_at > p_now) AND w.of_kind = ANY (p_kinds) AS fits
                    FROM waiting AS w
                    WHERE {line} AND (cardinality(p_out) = 0 OR w.seq NOT IN (SELECT o.seq FROM unnest(p_out) AS o (seq)))
                    {turn}
                    LIMIT a.most + 1
                ) AS r
            ) AS l
            WHERE l.nth <= a.most
            LIMIT p_want
        ) AS f;
    END IF;
    IF v_is_whole IS NOT FALSE AND NOT v_is_known THEN
        -- The kinds of all of them in one step.
        v_is_whole := cardinality(o_jobs) = (SELECT count(*) FROM jobs AS j WHERE j.seq = ANY (o_jobs) AND j.kind = ANY (p_kinds));
    END IF;
    IF v_is_whole IS NOT FALSE THEN
        RETURN NEXT;
        RETURN;
    END IF;
    -- Some are of other kinds: some more of each gate are looked at than it may give.
    o_seen := NULL;
    SELECT array_agg(f.ctid), array_agg(f.seq), array_agg(f.gate), array_agg(f.key) INTO o_found, o_jobs, o_gates, o_keys
    FROM (
        SELECT l.ctid, l.seq, a.gate, a.key
        FROM unnest(p_keys, p_mosts) WITH ORDINALITY AS a (key, most, gate)
        CROSS JOIN LATERAL (
            SELECT r.ctid, r.seq
            FROM (
                SELECT w.ctid, w.seq
                FROM waiting AS w
                WHERE {line} AND (cardinality(p_out) = 0 OR w.seq NOT IN (SELECT o.seq FROM unnest(p_out) AS o (seq)))
                    AND (w.expires_at IS NULL OR w.attempt > 0 OR w.expires_at > p_now)
                {turn}
                LIMIT a.most + {passed_max}
            ) AS r
            JOIN jobs AS j ON j.seq = ANY (ARRAY[r.seq])
            WHERE j.kind = ANY (p_kinds)
            LIMIT a.most
        ) AS l
        LIMIT p_want
    ) AS f;
    RETURN NEXT;
END
$$;
