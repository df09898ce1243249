-- A part of the claim: locks the jobs of one queue with rules whose turn it is, as far as the rules leave them.
--
-- p_want, p_at_once  as in jobs/claim/left
-- p_bytes     how many bytes of payload; a job that does not fit ends the claim, but for the first of it
-- p_is_keyed  whether the queue uses the rule of keys; jobs with a key come first where p_nonce is odd
-- others      as in jobs/claim/choose
-- result      as there; the queue, if its running jobs are counted; and the number and the key of each job that has one. More
--             bytes than p_bytes: the claim is over
CREATE FUNCTION {function}(
    p_now int8, p_queue text, p_kinds text[], p_want int8, p_at_once int8, p_bytes int8, p_is_first bool, p_is_keyed bool,
    p_nonce int8, p_place int8, p_floor_queues int8[], p_floor_priorities int8[], p_floor_dues int8[]
) RETURNS TABLE (
    o_places tid[], o_jobs int8[], o_sizes int8[], o_bytes int8, o_met_locked bool, o_counted text[], o_keys text[]
)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_is_keyed bool; v_count int8; v_offset int8 := ((p_nonce >> 16) & 65535) >> (((p_nonce >> 8) & 255) % 17)::int4;
    v_left record; v_part record;
BEGIN
    SELECT l.* INTO v_left FROM {jobs_left}(p_now, p_queue, p_kinds, p_want, p_at_once, p_is_keyed) AS l;
    o_met_locked := v_left.o_met_locked; o_counted := v_left.o_counted; o_bytes := 0;
    FOREACH v_is_keyed IN ARRAY
        CASE WHEN NOT p_is_keyed THEN '{false}' WHEN p_nonce & 1 = 1 THEN '{true,false}' ELSE '{false,true}' END::bool[]
    LOOP
        v_count := coalesce(cardinality(o_jobs), 0);
        EXIT WHEN v_count >= v_left.o_want OR o_bytes > p_bytes;
        IF v_is_keyed THEN
            SELECT k.* INTO v_part
            FROM {jobs_keyed}(
                p_now, p_queue, v_left.o_kinds, v_left.o_want - v_count, p_bytes - o_bytes, p_is_first AND v_count = 0,
                v_left.o_aging, v_offset
            ) AS k;
        ELSIF v_left.o_aging IS NOT NULL THEN
            -- Their order is said, though they have no keys.
            SELECT c.*, '{}'::text[] AS o_keys INTO v_part
            FROM {jobs_aged}(
                p_now, p_queue, v_left.o_kinds, v_left.o_want - v_count, v_left.o_aging, v_offset, p_place, p_floor_queues,
                p_floor_priorities, p_floor_dues
            ) AS c;
        ELSE
            SELECT c.*, NULL::text[] AS o_keys INTO v_part
            FROM {jobs_choose}(
                p_now, p_queue, v_left.o_kinds, v_left.o_want - v_count, p_place, p_floor_queues, p_floor_priorities,
                p_floor_dues
            ) AS c;
        END IF;
        o_places := o_places || v_part.o_places; o_jobs := o_jobs || v_part.o_jobs; o_sizes := o_sizes || v_part.o_sizes;
        o_bytes := o_bytes + v_part.o_bytes; o_keys := o_keys || v_part.o_keys;
        o_met_locked := o_met_locked OR v_part.o_met_locked;
    END LOOP;
    RETURN NEXT;
END
$$;
