-- Defines a queue and lets every client know that definitions have changed. One that is there already stays
-- as it is, and no client has to read definitions again.
--
-- p_rules  the newest rule that the definition uses
-- result   the newest rule that the queue uses, if this program does not know it: then nothing is changed
CREATE FUNCTION {function}(p_queue text, p_config text, p_payload_max int8, p_rules int8) RETURNS TABLE (o_unknown int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
BEGIN
    PERFORM 1
    FROM queues AS q
    WHERE q.name = p_queue AND q.config = p_config AND q.payload_max = p_payload_max AND q.rules = p_rules;
    IF found THEN
        RETURN NEXT;
        RETURN;
    END IF;
    -- Definitions are changed one after the other.
    PERFORM 1 FROM settings WHERE name = 'definitions' FOR NO KEY UPDATE;
    SELECT q.rules INTO o_unknown FROM queues AS q WHERE q.name = p_queue AND q.rules > {rules};
    IF found THEN
        RETURN NEXT;
        RETURN;
    END IF;
    -- A random step: a version that was lost in a failover is not given to another definition.
    UPDATE settings SET value = value + 1 + (random() * 1000000)::int8 WHERE name = 'definitions';
    INSERT INTO queues (name, config, payload_max, rules) VALUES (p_queue, p_config, p_payload_max, p_rules)
    ON CONFLICT (name) DO UPDATE
    SET config = excluded.config, payload_max = excluded.payload_max, rules = excluded.rules;
    UPDATE settings SET value = (SELECT coalesce(max(q.rules), 0) FROM queues AS q) WHERE name = 'rules';
    RETURN NEXT;
END
$$;
