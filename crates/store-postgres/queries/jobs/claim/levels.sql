-- A part of the claim: the levels of lines that a claim looks at where priority is aged; see the section about that in the
-- documentation of Jobs::claim in the core. Each is one step in the index.
--
-- p_lines   kinds, or '#' and a key
-- p_offset  how far below the highest level of a line to begin; after the lowest one comes the highest
-- result    the line and the rank (`~priority`) of each
CREATE FUNCTION {function}(p_queue text, p_lines text[], p_offset int8) RETURNS TABLE (o_line text, o_rank int8)
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT a.line, l.rank
    FROM unnest(p_lines) AS a (line)
    CROSS JOIN LATERAL (
        SELECT (~w.priority) + p_offset AS start
        FROM waiting AS w
        WHERE {level}
        {turn}
        LIMIT 1
    ) AS h
    CROSS JOIN LATERAL (
        WITH RECURSIVE step (part, rank, number) AS (
            SELECT p.part, p.rank, 0 FROM (VALUES (0, h.start - 1), (1, -32769::int8)) AS p (part, rank)
            UNION ALL
            SELECT s.part, n.rank, s.number + 1
            FROM step AS s
            CROSS JOIN LATERAL (
                SELECT (~w.priority)::int8 AS rank
                FROM waiting AS w
                WHERE {level} AND ~w.priority > s.rank
                {turn}
                LIMIT 1
            ) AS n
            WHERE s.number < {levels_looked_max} AND (s.part = 0 OR n.rank < h.start)
        )
        SELECT s.rank FROM step AS s WHERE s.number > 0 ORDER BY s.part, s.rank LIMIT {levels_looked_max}
    ) AS l;
END
$$;
