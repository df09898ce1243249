-- A part of the claim: how many of its jobs have no more bytes than it asks for. The one that does not fit ends the claim, or it
-- would lose its turn to smaller ones; the first always fits.
CREATE FUNCTION {function}(p_sizes int8[], p_bytes int8) RETURNS TABLE (o_count int8)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
BEGIN
    SELECT count(*) INTO o_count
    FROM (
        SELECT place, sum(size) OVER (ORDER BY place) AS bytes FROM unnest(p_sizes) WITH ORDINALITY AS s (size, place)
    ) AS s
    WHERE s.bytes <= p_bytes OR s.place = 1;
    RETURN NEXT;
END
$$;
