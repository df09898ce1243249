-- A part of the claim: whether a queue says so many jobs of a key may run that none has to be counted yet, since fewer run in all. If
-- not, those that run begin to count here. The definition of the queue is locked, and its jobs do not count.
--
-- p_most  how many jobs of a key may run
-- p_want  how many jobs are wanted
-- result  true also means that far more may run than are wanted, see AMPLE in the core
CREATE FUNCTION {function}(p_queue text, p_most int8, p_want int8) RETURNS TABLE (o_is_far bool)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
BEGIN
    o_is_far := p_most >= 2000 + {ample} * p_want
        AND (SELECT count(*) FROM (SELECT 1 FROM running AS r LIMIT 2000) AS r) < 2000;
    IF NOT o_is_far THEN
        PERFORM gates_count(p_queue);
        UPDATE queues SET keys_counted = true WHERE name = p_queue;
    END IF;
    RETURN NEXT;
END
$$;
