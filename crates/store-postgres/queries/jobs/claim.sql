-- Hands out jobs under a lease. In each queue, in order: what has expired dies, what is due becomes ready, then the
-- jobs whose turn it is become running.
--
-- p_shares    how many jobs each queue may give
-- p_limit     how many jobs in all, p_bytes how many bytes of payload; the first job is taken whatever its size
-- p_at_once   how many jobs in all before a queue with limits gives none
-- p_move_max  how many expired and how many due jobs are moved per queue, at most
-- p_moved_to  from which instant on to look for expired and for due jobs, by place of the queue
-- p_floor_*   from which due instant on to look for ready ones, by place of the queue (from 1) and priority, highest first;
--             a queue without any is looked at from its beginning. What lies below, here and there, is rows that are
--             dead but cannot be removed as long as a session holds an old snapshot.
-- result      one row 'lost' without a lease; else the jobs in any order, and one row 'end' with the
--             span to the next due job (NULL: none) in o_due_at, the version of the definitions in o_seq,
--             how many jobs have died of age in o_fence, how many places of indexes were looked at in o_attempt, whether
--             other calls had locked jobs that this one could have taken in o_stalls, and the label of the lease's
--             worker in o_kind, and the newest rule that any queue uses in o_ambiguous; queues that use one which this
--             program does not know are left out. Where jobs have a key or priority is aged, all jobs in their order in o_tags,
--             and the number and the key of each that has one in o_spec. Queues whose limits leave far more than was asked for in
--             o_queue. Fails with WL005 if the lease was lost after jobs had passed gates
CREATE FUNCTION {function}(
    p_lease uuid, p_nonce int8, p_queues text[], p_shares int8[], p_kinds text[], p_limit int8, p_bytes int8,
    p_move_max int8, p_moved_to int8[], p_floor_queues int8[], p_floor_priorities int8[], p_floor_dues int8[], p_at_once int8
) RETURNS TABLE (
    o_answer text, o_seq int8, o_id uuid, o_queue text, o_kind text, o_payload bytea, o_priority int2, o_fence int8,
    o_attempt int8, o_stalls int8, o_ambiguous int8, o_backoff int8, o_spec text,
    o_tags text, o_enqueued_at int8, o_due_at int8, o_claimed_at int8, o_form int8
)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros(); v_lease int8; v_worker text; v_expires_at int8; v_looked int8; v_seen int8;
    -- Places of queues: those with rules, those with something to move, those that may have something to take, and the one
    -- that has its turn.
    v_ruled int8[] := '{}'; v_keyed int8[] := '{}'; v_moving int8[]; v_giving int8[]; q int8;
    v_is_behind bool; v_due int8; v_next int8; v_died int8; v_kind text; v_is_plain bool; v_want int8;
    v_counted text[]; v_keys text[]; v_ample text[]; v_chosen record;
    -- What is taken, and of which queues.
    v_places tid[]; v_jobs int8[]; v_sizes int8[]; v_queues text[]; v_bytes int8; v_count int8; v_place int8;
BEGIN
    -- What the last row says stands in its columns from here on.
    SELECT
        l.key, l.worker, l.worker, (SELECT value FROM settings WHERE name = 'definitions'),
        (SELECT value FROM settings WHERE name = 'rules'), {looked}, 0, 0, p_kinds[1],
        cardinality(p_kinds) = 1 AND cardinality(p_floor_queues) = 0
    INTO v_lease, v_worker, o_kind, o_seq, o_ambiguous, v_looked, o_fence, o_stalls, v_kind, v_is_plain
    FROM leases AS l
    WHERE l.id = p_lease AND l.expires_at > v_now;
    IF v_lease IS NULL THEN
        o_answer := 'lost'; RETURN NEXT; RETURN;
    END IF;
    IF o_ambiguous > 0 THEN
        SELECT r.o_queues, r.o_ruled, r.o_keyed, v_is_plain AND r.o_ruled = '{}' INTO p_queues, v_ruled, v_keyed, v_is_plain
        FROM {jobs_ruled}(p_queues) AS r;
    END IF;
    SELECT l.o_moving, l.o_giving, l.o_due INTO v_moving, v_giving, v_next
    FROM {jobs_look}(v_now, p_queues, p_shares, p_kinds, v_is_plain, p_moved_to, p_floor_queues, v_keyed) AS l;
    FOREACH q IN ARRAY v_moving LOOP
        SELECT d.o_died, d.o_is_behind, d.o_due INTO v_died, v_is_behind, v_due
        FROM {jobs_due}(
            v_now, p_queues[q], p_moved_to[q], p_move_max, least(p_move_max, greatest(least(p_shares[q], p_limit), 100))
        ) AS d;
        o_fence := o_fence + v_died;
        IF v_is_behind THEN
            -- They could be next in turn, and must not be handed out.
            v_due := v_now; v_giving := array_remove(v_giving, q);
        END IF;
        v_next := least(v_next, v_due);
    END LOOP;
    IF v_is_plain THEN
        v_seen := pg_stat_get_xact_tuples_fetched('waiting_ready'::regclass);
        SELECT
            array_agg(l.ctid), array_agg(l.seq), array_agg(l.size), array_agg(l.v_queue), sum(l.size),
            (count(*) < least(p_limit, pg_stat_get_xact_tuples_fetched('waiting_ready'::regclass) - v_seen))::int4
        INTO v_places, v_jobs, v_sizes, v_queues, v_bytes, o_stalls
        FROM (
            SELECT r.*, g.v_queue
            FROM (SELECT p_queues[i] AS v_queue, p_shares[i] AS share FROM unnest(v_giving) AS g (i)) AS g
            CROSS JOIN LATERAL (
                {ready}
                {turn}
                LIMIT g.share
                FOR UPDATE SKIP LOCKED
            ) AS r
            LIMIT p_limit
        ) AS l;
    ELSE
        FOREACH q IN ARRAY v_giving LOOP
            v_count := coalesce(cardinality(v_jobs), 0); v_want := least(p_shares[q], p_limit - v_count);
            EXIT WHEN v_count >= p_limit OR v_bytes > p_bytes;
            -- What was just moved may have its place below the floor.
            v_place := CASE WHEN q = ANY (v_moving) THEN 0 ELSE q END;
            IF q = ANY (v_ruled) THEN
                SELECT h.* INTO v_chosen
                FROM {jobs_heed}(
                    v_now, p_queues[q], p_kinds, v_want, p_at_once - v_count, p_bytes - coalesce(v_bytes, 0), v_count = 0,
                    q = ANY (v_keyed), p_nonce, v_place, p_floor_queues, p_floor_priorities, p_floor_dues
                ) AS h;
                v_counted := v_counted || v_chosen.o_counted; v_keys := v_keys || v_chosen.o_keys;
                v_ample := v_ample || CASE WHEN v_chosen.o_is_ample THEN p_queues[q] END;
            ELSE
                SELECT c.* INTO v_chosen
                FROM {jobs_choose}(
                    v_now, p_queues[q], p_kinds, v_want, v_place, p_floor_queues, p_floor_priorities, p_floor_dues
                ) AS c;
            END IF;
            o_stalls := greatest(o_stalls, v_chosen.o_met_locked::int4); v_bytes := coalesce(v_bytes, 0) + v_chosen.o_bytes;
            CONTINUE WHEN v_chosen.o_jobs IS NULL;
            v_places := v_places || v_chosen.o_places; v_jobs := v_jobs || v_chosen.o_jobs; v_sizes := v_sizes || v_chosen.o_sizes;
            v_queues := v_queues || array_fill(p_queues[q], ARRAY[cardinality(v_chosen.o_jobs)]);
        END LOOP;
    END IF;
    IF v_places IS NOT NULL THEN
        -- Calls that end the lease wait for this claim, or this claim for them. Not before there is something to take:
        -- a look that finds nothing writes nothing. By a time that is read after the wait.
        SELECT expires_at INTO v_expires_at FROM leases WHERE key = v_lease FOR KEY SHARE;
        IF v_expires_at IS NULL OR v_expires_at <= clock_micros() THEN
            IF v_keys IS NOT NULL THEN
                RAISE EXCEPTION 'the lease is lost' USING ERRCODE = 'WL005';
            END IF;
            o_answer := 'lost'; RETURN NEXT; RETURN;
        END IF;
        IF v_bytes > p_bytes THEN
            v_count := (SELECT f.o_count FROM {jobs_fit}(v_sizes, p_bytes) AS f);
            v_places := v_places[1:v_count]; v_jobs := v_jobs[1:v_count]; v_queues := v_queues[1:v_count];
        END IF;
        -- By a time that is read when the claims before this one have ended: what is recorded never shows more at once.
        v_now := CASE WHEN v_ruled = '{}' THEN v_now ELSE greatest(v_now, clock_micros()) END;
        RETURN QUERY
        {take};
        v_count := moves(CASE WHEN cardinality(v_giving) = 1 THEN p_queues[v_giving[1]] END, 2, 3, NULL, v_jobs, true, v_queues, p_is_counted => true);
    END IF;
    FOREACH q IN ARRAY v_ruled LOOP
        SELECT least(v_next, s.o_next) INTO v_next
        FROM {jobs_spend}(v_now, p_queues[q], cardinality(array_positions(v_queues, p_queues[q]))) AS s;
    END LOOP;
    o_answer := 'end'; o_queue := array_to_string(v_ample, ','); o_attempt := {looked} - v_looked; o_claimed_at := v_now;
    o_due_at := CASE WHEN v_next IS NOT NULL THEN greatest(v_next - v_now, 0) END;
    o_tags := CASE WHEN v_keys IS NOT NULL THEN array_to_string(v_jobs, ',') END; o_spec := array_to_string(v_keys, ',');
    RETURN NEXT;
END
$$;
