-- Sets the definition of a queue and lets every client know that definitions have changed. One that is there already stays
-- as it is, and no client has to read definitions again.
CREATE FUNCTION {function}(p_queue text, p_config text, p_payload_max int8) RETURNS TABLE (o_definitions int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
BEGIN
    SELECT s.value INTO o_definitions
    FROM settings AS s
    WHERE s.name = 'definitions'
        AND EXISTS (
            SELECT 1 FROM queues AS q WHERE q.name = p_queue AND q.config = p_config AND q.payload_max = p_payload_max
        );
    IF found THEN
        RETURN NEXT;
        RETURN;
    END IF;
    -- A random step: a version that was lost in a failover is not given to another definition.
    UPDATE settings SET value = value + 1 + (random() * 1000000)::int8 WHERE name = 'definitions' RETURNING value INTO o_definitions;
    INSERT INTO queues (name, config, payload_max) VALUES (p_queue, p_config, p_payload_max)
    ON CONFLICT (name) DO UPDATE SET config = excluded.config, payload_max = excluded.payload_max;
    RETURN NEXT;
END
$$;
