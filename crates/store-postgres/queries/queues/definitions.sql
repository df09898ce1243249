-- The definitions of some queues, and their version.
--
-- result  one row with o_name NULL, and one per queue that somebody defined
CREATE FUNCTION {function}(p_queues text[]) RETURNS TABLE (o_definitions int8, o_name text, o_config text, o_rules int8)
LANGUAGE plpgsql STABLE {steady}
AS $$
#variable_conflict use_column
BEGIN
    -- STABLE: both come from one snapshot.
    SELECT value INTO o_definitions FROM settings WHERE name = 'definitions';
    RETURN NEXT;
    RETURN QUERY
    SELECT o_definitions, q.name::text, q.config, q.rules FROM queues AS q WHERE q.name = ANY (p_queues);
END
$$;
