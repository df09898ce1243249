-- The states of jobs by their ids.
CREATE FUNCTION {function}(p_ids uuid[]) RETURNS TABLE (o_id uuid, o_state int8)
LANGUAGE plpgsql STABLE {steady}
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT r.id, r.state
    FROM unnest(p_ids) AS a (id)
    JOIN records AS r ON r.id = ANY (ARRAY[a.id]);
END
$$;
