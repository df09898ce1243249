-- Forgets a queue that holds no job, and its definition. Programs are told that definitions have changed.
--
-- A call that has not committed yet is as one that comes later: its jobs bring the queue back.
--
-- result   o_answer is 'done', 'missing', or 'full' with the jobs by state; or 'rules' with the newest rule that the queue
--          uses, if this program does not know it: then nothing is changed
CREATE FUNCTION {function}(p_queue text)
RETURNS TABLE (
    o_answer text, o_rules int8, o_blocked int8, o_scheduled int8, o_ready int8, o_running int8, o_completed int8, o_dead int8,
    o_cancelled int8
)
LANGUAGE plpgsql VOLATILE SET search_path = {schema}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    -- Definitions are changed one after the other.
    PERFORM 1 FROM settings WHERE name = 'definitions' FOR NO KEY UPDATE;
    -- Transactions that have enqueued jobs with a key into it hold its row, and so do claims, for a moment.
    FOR round IN 1 .. 50 LOOP
        PERFORM 1 FROM queues AS q WHERE q.name = p_queue FOR UPDATE SKIP LOCKED;
        EXIT WHEN found OR NOT EXISTS (SELECT 1 FROM queues AS q WHERE q.name = p_queue);
        IF round = 50 THEN
            RAISE EXCEPTION 'an open transaction has enqueued into the queue' USING ERRCODE = 'lock_not_available';
        END IF;
        PERFORM pg_sleep(0.02);
    END LOOP;
    o_rules := (SELECT q.rules FROM queues AS q WHERE q.name = p_queue);
    SELECT
        coalesce(sum(c.blocked), 0), coalesce(sum(c.scheduled), 0), coalesce(sum(c.ready), 0), coalesce(sum(c.running), 0),
        coalesce(sum(c.completed), 0), coalesce(sum(c.dead), 0), coalesce(sum(c.cancelled), 0)
    INTO o_blocked, o_scheduled, o_ready, o_running, o_completed, o_dead, o_cancelled
    FROM counts AS c
    WHERE c.queue = p_queue;
    o_answer := CASE
        WHEN o_rules > {rules} THEN 'rules'
        WHEN o_blocked + o_scheduled + o_ready + o_running + o_completed + o_dead + o_cancelled > 0 THEN 'full'
        WHEN o_rules IS NULL THEN 'missing'
        ELSE 'done'
    END;
    IF o_answer = 'done' THEN
        DELETE FROM queues WHERE name = p_queue;
        -- Those of jobs that came meanwhile stay. What a job holds until its start or end it has given up.
        DELETE FROM keys AS k
        WHERE k.queue = p_queue AND k.free_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM jobs AS j WHERE j.seq = k.seq);
        DELETE FROM spent WHERE queue = p_queue;
        DELETE FROM key_spent WHERE queue = p_queue;
        DELETE FROM gates WHERE queue = p_queue;
        DELETE FROM gate_runs WHERE queue = p_queue;
        DELETE FROM gate_reports WHERE queue = p_queue;
        -- A random step, as in define.
        UPDATE settings SET value = value + 1 + (random() * 1000000)::int8 WHERE name = 'definitions';
        UPDATE settings SET value = (SELECT coalesce(max(q.rules), 0) FROM queues AS q) WHERE name = 'rules';
    END IF;
    RETURN NEXT;
END
$$;
