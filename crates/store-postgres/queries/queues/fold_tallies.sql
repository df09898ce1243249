-- Folds the rows that calls have added to tallies into a row for each interval, and removes what is no longer kept. One at a
-- time: a second caller leaves it to the first.
--
-- p_limit  how many rows are folded, and how many removed of each interval, at most
-- p_kinds  how many kinds of a queue and an interval are named
-- p_old    before which instants rows of 1, 10 and 60 minutes are removed
-- result   how many were folded, or removed
CREATE FUNCTION {function}(p_limit int8, p_kinds int8, p_age int8[]) RETURNS TABLE (o_folded int8)
LANGUAGE plpgsql VOLATILE SET search_path = {schema}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_gone int8;
    v_now int8 := clock_micros();
BEGIN
    o_folded := 0;
    IF pg_try_advisory_xact_lock(hashtextextended('windlass tallies ' || current_schema(), 0)) THEN
        WITH loose AS (
            DELETE FROM tallied WHERE ctid = ANY (ARRAY(SELECT t.ctid FROM tallied AS t LIMIT p_limit))
            RETURNING minute, times, cell, queue, kind
        ), split AS (
            SELECT i.step, l.minute - l.minute % (i.step * 60000000::int8) AS at, l.queue, l.kind, l.cell, l.times
            FROM loose AS l
            CROSS JOIN (VALUES (1), (10), (60)) AS i (step)
        ), places AS (
            SELECT
                p.*, dense_rank() OVER (PARTITION BY p.queue, p.step, p.at, p.is_there ORDER BY p.kind) AS place,
                (
                    SELECT count(*) FROM tallies AS t
                    WHERE t.queue = p.queue AND t.step = p.step AND t.at = p.at AND t.kind > ''
                ) AS named
            FROM (
                SELECT
                    s.queue, s.step, s.at, s.kind,
                    EXISTS (
                        SELECT 1 FROM tallies AS t
                        WHERE t.queue = s.queue AND t.step = s.step AND t.at = s.at AND t.kind = s.kind
                    ) AS is_there
                FROM (SELECT DISTINCT queue, step, at, kind FROM split WHERE kind > '') AS s
            ) AS p
        ), sums AS (
            SELECT
                s.queue, s.step, s.at,
                CASE WHEN p.is_there OR p.named + p.place <= p_kinds THEN s.kind ELSE '' END AS kind, s.cell,
                sum(s.times)::int8 AS times
            FROM split AS s
            LEFT JOIN places AS p ON p.queue = s.queue AND p.step = s.step AND p.at = s.at AND p.kind = s.kind
            GROUP BY 1, 2, 3, 4, 5
        ), folded AS (
            INSERT INTO tallies AS t (queue, step, at, kind, cells, times)
            SELECT s.queue, s.step, s.at, s.kind, array_agg(s.cell ORDER BY s.cell), array_agg(s.times ORDER BY s.cell)
            FROM sums AS s
            GROUP BY s.queue, s.step, s.at, s.kind
            ON CONFLICT (queue, step, at, kind) DO UPDATE
            SET (cells, times) = (
                SELECT array_agg(m.cell ORDER BY m.cell), array_agg(m.times ORDER BY m.cell)
                FROM (
                    SELECT u.cell, sum(u.times)::int8 AS times
                    FROM (
                        SELECT unnest(t.cells) AS cell, unnest(t.times) AS times
                        UNION ALL
                        SELECT unnest(excluded.cells), unnest(excluded.times)
                    ) AS u
                    GROUP BY u.cell
                ) AS m
            )
        )
        SELECT count(*) INTO o_folded FROM loose;
        FOR i IN 1 .. 3 LOOP
            DELETE FROM tallies
            WHERE ctid = ANY (
                ARRAY(
                    SELECT t.ctid FROM tallies AS t
                    WHERE t.step = (ARRAY[1, 10, 60])[i] AND t.at < v_now - p_age[i]
                    LIMIT p_limit
                )
            );
            GET DIAGNOSTICS v_gone = ROW_COUNT;
            o_folded := o_folded + v_gone;
        END LOOP;
    END IF;
    RETURN NEXT;
END
$$;
