-- Opens a lease. One that is there already stays as it is: the call before may have lost its answer.
CREATE FUNCTION {function}(p_id uuid, p_ttl int8, p_worker text, p_serves text) RETURNS TABLE (o_key int8)
LANGUAGE sql VOLATILE {steady}
AS $$
    WITH time AS MATERIALIZED (SELECT clock_micros() AS now)
    INSERT INTO leases (id, opened_at, expires_at, worker, serves)
    SELECT p_id, t.now, later(t.now, p_ttl), p_worker, p_serves FROM time AS t
    ON CONFLICT (id) DO NOTHING
    RETURNING key
$$;
