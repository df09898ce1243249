-- Hands out jobs under a lease. In each queue, in order: what has expired dies, what is due becomes ready, then the
-- jobs whose turn it is become running.
--
-- p_shares    how many jobs each queue may give
-- p_limit     how many jobs in all, p_bytes how many bytes of payload; the first job is taken whatever its size
-- p_move_max  how many expired and how many due jobs are moved per queue, at most
-- p_moved_to  from which instant on to look for expired and for due jobs, by place of the queue
-- p_floor_*   from which due instant on to look for ready ones, by place of the queue (from 1) and priority, highest first;
--             a queue without any is looked at from its beginning. What lies below, here and there, is rows that are
--             dead but cannot be removed as long as a session holds an old snapshot.
-- result      one row 'lost' without a lease; else the jobs, of each queue in any order, and one row 'end' with the
--             span to the next due job (NULL: none) in o_due_at, the version of the definitions in o_seq,
--             how many jobs have died of age in o_fence, how many places of indexes were looked at in o_attempt, whether
--             other calls had locked jobs that this one could have taken in o_stalls, and the label of the lease's
--             worker in o_kind, and the newest rule that any queue uses in o_ambiguous; queues that use one which this
--             program does not know are left out
CREATE FUNCTION {function}(
    p_lease uuid, p_nonce int8, p_queues text[], p_shares int8[], p_kinds text[], p_limit int8, p_bytes int8,
    p_move_max int8, p_moved_to int8[], p_floor_queues int8[], p_floor_priorities int8[], p_floor_dues int8[]
) RETURNS TABLE (
    o_answer text, o_seq int8, o_id uuid, o_queue int8, o_kind text, o_payload bytea, o_priority int2, o_fence int8,
    o_attempt int8, o_stalls int8, o_ambiguous int8, o_backoff int8, o_spec text,
    o_tags text, o_enqueued_at int8, o_due_at int8, o_claimed_at int8, o_form int8
)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
    v_looked int8 := {looked};
    v_lease int8; v_worker text; v_expires_at int8; v_definitions int8; v_rules int8;
    -- The queues that are worth it, and the one that has its turn.
    v_queues int8[] := '{1}'; q int8; v_queue text; v_moved_to int8;
    v_is_late bool; v_has_moved bool; v_due int8; v_next int8; v_died int8 := 0;
    -- What may still be taken.
    v_want int8; v_left int8 := p_limit; v_room int8 := p_bytes; v_is_first bool := true;
    -- All ready jobs of the only kind; see shared/ready.
    v_kind text := p_kinds[1]; v_rank int8 := -32769; v_due_at int8 := 0; v_seq int8 := 0; v_rank_end int8 := 32768;
    -- What is taken from the queue.
    v_places tid[]; v_jobs int8[]; v_sizes int8[]; v_count int8; v_bytes int8;
    v_seen int8; v_met_locked bool := false;
BEGIN
    SELECT key, worker, (SELECT value FROM settings WHERE name = 'definitions'),
        (SELECT value FROM settings WHERE name = 'rules')
    INTO v_lease, v_worker, v_definitions, v_rules
    FROM leases
    WHERE id = p_lease AND expires_at > v_now;
    IF v_lease IS NULL THEN
        o_answer := 'lost';
        RETURN NEXT;
        RETURN;
    END IF;
    IF v_rules > {rules} THEN
        p_queues := {known};
    END IF;
    IF cardinality(p_queues) <> 1 THEN
        SELECT l.o_places, l.o_due INTO v_queues, v_next
        FROM {jobs_look}(v_now, p_queues, p_moved_to, p_floor_queues) AS l;
    END IF;
    FOREACH q IN ARRAY coalesce(v_queues, '{}') LOOP
        v_queue := p_queues[q]; v_moved_to := p_moved_to[q]; v_want := least(p_shares[q], v_left);
        -- A look before each move: mostly there is nothing to move.
        SELECT ({late}), ({next}) INTO v_is_late, v_due;
        v_has_moved := v_is_late OR v_due <= v_now;
        IF v_has_moved THEN
            SELECT v_died + d.o_died, d.o_is_behind, d.o_due INTO v_died, v_is_late, v_due
            FROM {jobs_due}(v_now, v_queue, v_moved_to, p_move_max, least(p_move_max, greatest(v_want, 100))) AS d;
            IF v_is_late THEN
                -- They could be next in turn, and must not be handed out.
                v_next := v_now;
                CONTINUE;
            END IF;
        END IF;
        v_next := least(v_next, v_due);
        CONTINUE WHEN v_want <= 0 OR cardinality(p_kinds) = 0;
        IF cardinality(p_kinds) = 1 AND q <> ALL (p_floor_queues) THEN
            v_seen := pg_stat_get_xact_tuples_fetched('waiting_ready'::regclass);
            SELECT array_agg(l.ctid), array_agg(l.seq), array_agg(l.size), sum(l.size)
            INTO v_places, v_jobs, v_sizes, v_bytes
            FROM (
                {ready}
                LIMIT v_want
                FOR UPDATE SKIP LOCKED
            ) AS l;
            v_count := coalesce(cardinality(v_jobs), 0);
            v_met_locked := v_met_locked OR v_count < v_want
                AND v_count < pg_stat_get_xact_tuples_fetched('waiting_ready'::regclass) - v_seen;
        ELSE
            SELECT c.o_places, c.o_jobs, c.o_sizes, c.o_bytes, cardinality(c.o_jobs), v_met_locked OR c.o_met_locked
            INTO v_places, v_jobs, v_sizes, v_bytes, v_count, v_met_locked
            FROM {jobs_choose}(
                v_now, v_queue, p_kinds, v_want,
                -- What was just moved may have its place below the floor.
                CASE WHEN v_has_moved THEN 0 ELSE q END, p_floor_queues, p_floor_priorities, p_floor_dues
            ) AS c;
        END IF;
        CONTINUE WHEN v_count = 0;
        IF v_expires_at IS NULL THEN
            -- Calls that end the lease wait for this claim, or this claim for them. Not before there is something to take:
            -- a look that finds nothing writes nothing. By a time that is read after the wait.
            SELECT expires_at INTO v_expires_at FROM leases WHERE key = v_lease FOR KEY SHARE;
            IF v_expires_at IS NULL OR v_expires_at <= clock_micros() THEN
                o_answer := 'lost';
                RETURN NEXT;
                RETURN;
            END IF;
        END IF;
        IF v_bytes > v_room THEN
            -- The one that does not fit ends the claim, or it would lose its turn to smaller ones.
            v_left := 0;
            SELECT count(*) INTO v_count
            FROM (
                SELECT place, sum(size) OVER (ORDER BY place) AS bytes FROM unnest(v_sizes) WITH ORDINALITY AS s (size, place)
            ) AS s
            WHERE s.bytes <= v_room OR v_is_first AND s.place = 1;
            v_places := v_places[1:v_count]; v_jobs := v_jobs[1:v_count];
        END IF;
        v_room := v_room - v_bytes; v_is_first := false;
        CONTINUE WHEN v_count = 0;
        RETURN QUERY
        {take};
        v_left := greatest(v_left - moves(v_queue, 2, 3, NULL, v_jobs), 0);
    END LOOP;
    o_answer := 'end'; o_seq := v_definitions; o_kind := v_worker; o_fence := v_died;
    o_attempt := {looked} - v_looked;
    o_stalls := v_met_locked::int4; o_ambiguous := v_rules;
    o_due_at := CASE WHEN v_next IS NOT NULL THEN greatest(v_next - v_now, 0) END; o_claimed_at := v_now;
    RETURN NEXT;
END
$$;
