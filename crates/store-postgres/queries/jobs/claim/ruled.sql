-- A part of the claim: which of its queues have rules.
--
-- result  the queues by their places, without those that use a rule which this program does not know; and the places (from 1) of
--         those that use rules which it knows, and of those among them that use the rule of keys
CREATE FUNCTION {function}(p_queues text[]) RETURNS TABLE (o_queues text[], o_ruled int8[], o_keyed int8[])
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
BEGIN
    SELECT
        array_agg(CASE WHEN d.rules > {rules} THEN NULL ELSE q.name END),
        coalesce(array_agg(q.place) FILTER (WHERE d.rules BETWEEN 1 AND {rules}), '{}'),
        coalesce(array_agg(q.place) FILTER (WHERE d.rules BETWEEN {rule_of_keys} AND {rules}), '{}')
    INTO o_queues, o_ruled, o_keyed
    FROM unnest(p_queues) WITH ORDINALITY AS q (name, place)
    LEFT JOIN queues AS d ON d.name = ANY (ARRAY[q.name]);
    RETURN NEXT;
END
$$;
