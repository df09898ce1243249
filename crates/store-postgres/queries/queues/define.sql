-- Defines a queue and lets every client know that definitions have changed. One that is there already stays
-- as it is, and no client has to read definitions again.
--
-- p_rules        the newest rule that the definition uses. A queue that uses the rule of keys goes on to use it
-- p_is_counted   whether it says how many jobs may run
-- p_capacity     how many jobs may wait; NULL: any number
-- p_definitions  the version of the definitions by which the caller knows the one that is there; NULL: whatever is there
-- result         'done', or 'stale' if the definitions have changed; or 'rules' and the newest rule that the queue uses, if this
--                program does not know it: then nothing is changed
CREATE FUNCTION {function}(
    p_queue text, p_config text, p_payload_max int8, p_rules int8, p_is_counted bool, p_capacity int8, p_definitions int8
) RETURNS TABLE (o_answer text, o_unknown int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_definitions int8;
    v_config text;
    v_rules int8;
    v_before record; v_after record;
BEGIN
    o_answer := 'done';
    PERFORM 1
    FROM queues AS q
    WHERE q.name = p_queue AND q.config = p_config AND q.payload_max = p_payload_max
        AND (q.rules = p_rules OR q.rules BETWEEN {rule_of_keys} AND {rules} AND q.rules > p_rules) AND p_definitions IS NULL;
    IF found THEN
        RETURN NEXT;
        RETURN;
    END IF;
    -- Definitions are changed one after the other.
    SELECT value INTO v_definitions FROM settings WHERE name = 'definitions' FOR NO KEY UPDATE;
    SELECT q.rules, q.config INTO v_rules, v_config FROM queues AS q WHERE q.name = p_queue;
    o_unknown := CASE WHEN v_rules > {rules} THEN v_rules END;
    IF o_unknown IS NOT NULL OR p_definitions <> v_definitions THEN
        o_answer := CASE WHEN o_unknown IS NULL THEN 'stale' ELSE 'rules' END;
        RETURN NEXT;
        RETURN;
    END IF;
    -- A random step: a version that was lost in a failover is not given to another definition.
    UPDATE settings SET value = value + 1 + (random() * 1000000)::int8 WHERE name = 'definitions';
    v_rules := CASE WHEN v_rules >= {rule_of_keys} THEN greatest(v_rules, p_rules) ELSE p_rules END;
    -- Waits for a claim that has locked the definition.
    INSERT INTO queues AS q (name, config, payload_max, rules, capacity)
    VALUES (p_queue, p_config, p_payload_max, v_rules, p_capacity)
    ON CONFLICT (name) DO UPDATE
    SET config = excluded.config, payload_max = excluded.payload_max, rules = excluded.rules, capacity = excluded.capacity,
        counted_from = CASE WHEN p_is_counted THEN q.counted_from END;
    -- A rate that is not the one before begins anew.
    DELETE FROM spent
    WHERE queue = p_queue
        AND (SELECT r.o_rate FROM {queues_rules}(p_config, 0) AS r)
            IS DISTINCT FROM (SELECT r.o_rate FROM {queues_rules}(v_config, 0) AS r);
    IF v_rules >= {rule_of_keys} THEN
        DELETE FROM key_spent
        WHERE queue = p_queue
            AND (SELECT r.o_rate FROM {queues_key_rules}(p_config) AS r)
                IS DISTINCT FROM (SELECT r.o_rate FROM {queues_key_rules}(v_config) AS r);
        -- Closed gates open that may give more by now: the next claim finds that their time has come.
        SELECT r.* INTO v_before FROM {queues_key_rules}(v_config) AS r;
        SELECT r.* INTO v_after FROM {queues_key_rules}(p_config) AS r;
        IF v_after.o_concurrency IS DISTINCT FROM v_before.o_concurrency OR v_after.o_rate IS DISTINCT FROM v_before.o_rate THEN
            UPDATE gates SET open_at = 1 WHERE queue = p_queue AND open_at > 1;
        ELSE
            UPDATE gates AS g SET open_at = 1
            FROM (
                SELECT k.key
                FROM jsonb_object_keys(coalesce(v_before.o_pauses, '{}') || coalesce(v_after.o_pauses, '{}')) AS k (key)
                WHERE v_before.o_pauses -> k.key IS DISTINCT FROM v_after.o_pauses -> k.key
            ) AS c
            WHERE g.queue = p_queue AND g.key = ANY (ARRAY[c.key]) AND g.open_at > 1;
        END IF;
    END IF;
    UPDATE settings SET value = (SELECT coalesce(max(q.rules), 0) FROM queues AS q) WHERE name = 'rules';
    RETURN NEXT;
END
$$;
