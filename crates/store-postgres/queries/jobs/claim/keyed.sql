-- A part of the claim: locks jobs of one queue that have a key, from one gate after the other by their turns, and lets them
-- through; see the section about keys in the documentation of Jobs::claim in the core.
--
-- Gates change one claim after the other, under the lock of the queue's definition. If another claim has it, there is nothing to
-- take now. Looks without the lock first: where no gate is open, none opens, and none was told anything, nothing is written.
--
-- p_bytes, p_is_first  as in jobs/claim/heed
-- p_worth, p_offset    as in jobs/claim/aged; NULL: priority is not aged
-- result      as there; and whether the limits of a key that was asked are near, or none was asked
CREATE FUNCTION {function}(
    p_now int8, p_queue text, p_kinds text[], p_want int8, p_bytes int8, p_is_first bool, p_worth int8, p_offset int8
) RETURNS TABLE (o_places tid[], o_jobs int8[], o_sizes int8[], o_bytes int8, o_met_locked bool, o_keys text[], o_is_near bool)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_config text; v_is_counted bool; v_rules record; v_round record;
    v_new text[] := '{}'; v_told text[]; v_turn int8;
    v_left int8 := p_want; v_looked int8 := 0; v_done text[] := '{}'; v_skipped int8[] := '{}';
BEGIN
    o_bytes := 0; o_met_locked := false; o_is_near := true;
    IF EXISTS (SELECT 1 FROM gate_runs AS r WHERE r.queue = p_queue)
        OR EXISTS (SELECT 1 FROM gate_reports AS n WHERE n.queue = p_queue)
        OR ({loose})
        OR EXISTS (SELECT 1 FROM gates AS g WHERE g.queue = p_queue AND g.open_at > 0 AND g.open_at <= p_now)
    THEN
        SELECT q.config, q.keys_counted INTO v_config, v_is_counted
        FROM queues AS q
        WHERE q.name = p_queue
        FOR NO KEY UPDATE SKIP LOCKED;
        o_met_locked := NOT found;
    END IF;
    IF v_config IS NULL THEN
        RETURN NEXT;
        RETURN;
    END IF;
    -- By a time that is read when the claims before this one have ended.
    p_now := greatest(p_now, clock_micros());
    -- No more than can be asked, but for a few jobs: what is not asked has to be written. More where that brought few gates. Where
    -- there is still more to tell, the next claim is to come soon.
    FOR step IN 1 .. 4 LOOP
        SELECT g.o_new, g.o_turn, g.o_is_behind INTO v_told, v_turn, o_met_locked
        FROM {jobs_gates}(p_now, p_queue, greatest(p_want, 500)) AS g;
        v_new := CASE
            WHEN v_new = '{}' THEN v_told
            ELSE
                v_new || ARRAY(
                    SELECT t.key FROM unnest(v_told) AS t (key) WHERE t.key NOT IN (SELECT n.key FROM unnest(v_new) AS n (key))
                )
        END;
        EXIT WHEN NOT o_met_locked OR cardinality(v_new) >= p_want;
    END LOOP;
    SELECT r.* INTO v_rules FROM {queues_key_rules}(v_config) AS r;
    IF v_rules.o_concurrency IS NOT NULL AND NOT v_is_counted THEN
        v_rules.o_concurrency := (
            SELECT CASE WHEN NOT f.o_is_far THEN v_rules.o_concurrency END FROM {jobs_far}(p_queue, v_rules.o_concurrency, p_want) AS f
        );
    END IF;
    WHILE v_left > 0 AND cardinality(p_kinds) > 0 AND v_looked < {gates_looked_max} AND o_bytes <= p_bytes LOOP
        SELECT r.* INTO v_round
        FROM {jobs_round}(
            p_now, p_queue, v_new, v_turn, p_kinds, v_left, least(v_left, {gates_looked_max} - v_looked), v_done,
            coalesce(o_jobs, '{}'), v_skipped, p_bytes - o_bytes, p_is_first AND o_jobs IS NULL, v_rules.o_concurrency,
            v_rules.o_jobs, v_rules.o_per, v_rules.o_shape, v_rules.o_burst, v_rules.o_step, v_rules.o_weights, v_rules.o_pauses, p_worth, p_offset
        ) AS r;
        v_new := '{}';
        EXIT WHEN v_round.o_asked = 0;
        v_looked := v_looked + v_round.o_asked;
        o_is_near := v_round.o_is_near OR o_is_near AND v_looked > v_round.o_asked;
        v_left := v_left - cardinality(v_round.o_jobs);
        v_done := v_done || v_round.o_done;
        v_skipped := v_skipped || v_round.o_skipped;
        o_bytes := o_bytes + v_round.o_bytes;
        o_met_locked := o_met_locked OR v_round.o_met_locked;
        IF cardinality(v_round.o_jobs) > 0 THEN
            o_places := o_places || v_round.o_places; o_jobs := o_jobs || v_round.o_jobs;
            o_sizes := o_sizes || v_round.o_sizes; o_keys := o_keys || v_round.o_keys;
        END IF;
    END LOOP;
    IF v_new <> '{}' THEN
        INSERT INTO gates (queue, key, turn, open_at) SELECT p_queue, n.key, v_turn, 0 FROM unnest(v_new) AS n (key);
    END IF;
    o_met_locked := o_met_locked AND v_left > 0;
    RETURN NEXT;
END
$$;
