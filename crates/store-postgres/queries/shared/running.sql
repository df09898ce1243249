-- How many jobs of a queue run, by the counters.
SELECT
    coalesce((SELECT c.jobs FROM counted AS c WHERE c.queue = p_queue AND c.state = 3), 0)
    + coalesce(sum(CASE WHEN m.state = 3 THEN m.jobs ELSE -m.jobs END), 0)
FROM moved AS m
WHERE m.queue = p_queue AND (m.state = 3) <> (m.state_before = 3)
