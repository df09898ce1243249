-- Locks the jobs that were found in a round, as many as are still wanted, and passes over what other calls have locked.
SELECT
    o_places || array_agg(c.ctid), o_jobs || array_agg(c.seq), o_sizes || array_agg(c.size),
    coalesce(o_bytes, 0) + coalesce(sum(c.size), 0), o_met_locked OR count(*) < v_count
INTO o_places, o_jobs, o_sizes, o_bytes, o_met_locked
FROM (
    SELECT w.ctid, w.seq, w.size
    FROM unnest(v_found) AS f (place)
    JOIN waiting AS w ON w.ctid = f.place
    LIMIT p_want - coalesce(cardinality(o_jobs), 0)
    FOR UPDATE OF w SKIP LOCKED
) AS c
