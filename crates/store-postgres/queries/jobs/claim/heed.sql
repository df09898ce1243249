-- A part of the claim: locks the jobs of one queue with rules whose turn it is, as far as the rules leave them.
--
-- p_want, p_at_once  as in jobs/claim/left
-- p_bytes     how many bytes of payload; a job that does not fit ends the claim, but for the first of it
-- p_is_keyed  whether the queue uses the rule of keys; jobs with a key come first where p_nonce is odd
-- others      as in jobs/claim/choose
-- result      as there; the queue, if its running jobs are counted; the number and the key of each job that has one; and whether
--             it has limits and they left far more than p_want, see AMPLE in the core. More bytes than p_bytes: the claim is over
CREATE FUNCTION {function}(
    p_now int8, p_queue text, p_kinds text[], p_want int8, p_at_once int8, p_bytes int8, p_is_first bool, p_is_keyed bool,
    p_nonce int8, p_place int8, p_floor_queues int8[], p_floor_priorities int8[], p_floor_dues int8[]
) RETURNS TABLE (
    o_places tid[], o_jobs int8[], o_sizes int8[], o_bytes int8, o_met_locked bool, o_counted text[], o_keys text[],
    o_is_ample bool
)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_now ALIAS FOR p_now; v_queue ALIAS FOR p_queue;
    v_offset int8 := ((p_nonce >> 16) & 65535) >> (((p_nonce >> 8) & 255) % 17)::int4;
    v_is_keyed bool; v_is_near bool; v_count int8; v_want int8; v_kind text; v_seen int8;
    v_left record; v_part record;
BEGIN
    SELECT l.* INTO v_left FROM {jobs_left}(p_now, p_queue, p_kinds, p_want, p_at_once, p_is_keyed) AS l;
    o_met_locked := v_left.o_met_locked; o_counted := v_left.o_counted; o_bytes := 0;
    o_is_ample := v_left.o_is_limited AND v_left.o_want > 0 AND coalesce(v_left.o_room >= {ample} * p_want, true);
    v_is_near := p_is_keyed;
    FOREACH v_is_keyed IN ARRAY
        CASE WHEN NOT p_is_keyed THEN '{false}' WHEN p_nonce & 1 = 1 THEN '{true,false}' ELSE '{false,true}' END::bool[]
    LOOP
        v_count := coalesce(cardinality(o_jobs), 0);
        v_want := v_left.o_want - v_count;
        EXIT WHEN v_want <= 0 OR o_bytes > p_bytes;
        IF v_is_keyed THEN
            SELECT k.* INTO v_part
            FROM {jobs_keyed}(
                p_now, p_queue, v_left.o_kinds, v_want, p_bytes - o_bytes, p_is_first AND v_count = 0, v_left.o_aging, v_offset
            ) AS k;
            v_is_near := v_part.o_is_near;
        ELSIF v_left.o_aging IS NOT NULL THEN
            -- Their order is said, though they have no keys.
            SELECT c.*, '{}'::text[] AS o_keys, false AS o_is_near INTO v_part
            FROM {jobs_aged}(
                p_now, p_queue, v_left.o_kinds, v_want, v_left.o_aging, v_offset, p_place, p_floor_queues, p_floor_priorities,
                p_floor_dues
            ) AS c;
        ELSIF cardinality(v_left.o_kinds) = 1 AND p_place <> ALL (p_floor_queues) THEN
            -- As jobs/claim/choose would, in one step.
            v_kind := v_left.o_kinds[1]; v_seen := pg_stat_get_xact_tuples_fetched('waiting_ready'::regclass);
            SELECT
                array_agg(l.ctid) AS o_places, array_agg(l.seq) AS o_jobs, array_agg(l.size::int8) AS o_sizes,
                coalesce(sum(l.size), 0)::int8 AS o_bytes,
                count(*) < least(v_want, pg_stat_get_xact_tuples_fetched('waiting_ready'::regclass) - v_seen) AS o_met_locked,
                NULL::text[] AS o_keys, false AS o_is_near
            INTO v_part
            FROM (
                {ready}
                {turn}
                LIMIT v_want
                FOR UPDATE SKIP LOCKED
            ) AS l;
        ELSE
            SELECT c.*, NULL::text[] AS o_keys, false AS o_is_near INTO v_part
            FROM {jobs_choose}(
                p_now, p_queue, v_left.o_kinds, v_want, p_place, p_floor_queues, p_floor_priorities,
                p_floor_dues
            ) AS c;
        END IF;
        o_places := o_places || v_part.o_places; o_jobs := o_jobs || v_part.o_jobs; o_sizes := o_sizes || v_part.o_sizes;
        o_bytes := o_bytes + v_part.o_bytes; o_keys := o_keys || v_part.o_keys;
        o_met_locked := o_met_locked OR v_part.o_met_locked;
    END LOOP;
    -- Where no gate was asked, nothing is known of their limits.
    o_is_ample := o_is_ample AND NOT o_met_locked AND NOT v_is_near;
    RETURN NEXT;
END
$$;
