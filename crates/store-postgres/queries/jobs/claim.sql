-- Hands out jobs under a lease. In each queue, in order: what has expired dies, what is due becomes ready, then the
-- jobs whose turn it is become running.
--
-- p_shares    how many jobs each queue may give
-- p_limit     how many jobs in all, p_bytes how many bytes of payload; the first job is taken whatever its size
-- p_move_max  how many expired and how many due jobs are moved per queue
-- p_floor_*   from which due instant on to look, by place of the queue (from 1) and priority, highest first; a queue
--             without any is looked at from its beginning. What lies below is rows that are dead but cannot be
--             removed as long as somebody holds an old snapshot.
-- result      one row 'lost' without a lease; else the jobs, of each queue in any order, and one row 'end' with the
--             span to the next due job (NULL: none) in o_due_at, the version of the definitions in o_seq,
--             how many jobs have died of age in o_fence, how many places of the line were looked at in o_attempt, and the
--             label of the lease's worker in o_kind
CREATE FUNCTION {function}(
    p_lease uuid, p_nonce int8, p_queues text[], p_shares int8[], p_kinds text[], p_limit int8, p_bytes int8,
    p_move_max int8, p_floor_queues int8[], p_floor_priorities int8[], p_floor_dues int8[]
) RETURNS TABLE (
    o_answer text, o_seq int8, o_id uuid, o_queue int8, o_kind text, o_payload bytea, o_priority int2, o_fence int8,
    o_attempt int8, o_stalls int8, o_ambiguous int8, o_backoff int8, o_spec text,
    o_tags text, o_enqueued_at int8, o_due_at int8, o_claimed_at int8, o_form int8
)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8;
    v_lease int8;
    v_expires_at int8;
    v_worker text;
    v_definitions int8;
    v_is_late bool;
    v_queue text;
    v_due int8;
    v_next int8;
    v_want int8;
    v_left int8 := p_limit;
    v_room int8 := p_bytes;
    v_is_first bool := true;
    v_is_locked bool := false;
    v_from_floor bool;
    v_places tid[];
    v_seqs int8[];
    v_sizes int8[];
    v_count int8;
    v_died int8 := 0;
    v_bytes int8;
    v_looked int8 := pg_stat_get_xact_tuples_returned('waiting_ready'::regclass);
    v_above int8;
    v_more tid[];
    v_more_sizes int8[];
BEGIN
    v_now := clock_micros();
    SELECT key, worker, (SELECT value FROM settings WHERE name = 'definitions')
    INTO v_lease, v_worker, v_definitions
    FROM leases
    WHERE id = p_lease AND expires_at > v_now;
    IF v_lease IS NULL THEN
        o_answer := 'lost';
        RETURN NEXT;
        RETURN;
    END IF;
    FOR q IN 1 .. cardinality(p_queues) LOOP
        v_queue := p_queues[q];
        v_from_floor := q = ANY (p_floor_queues);
        -- A look before each move: mostly there is nothing to move. The order is that of the index by queue, which
        -- any other plan would have to sort.
        SELECT
            (
                SELECT true
                FROM waiting
                WHERE queue = v_queue AND attempt = 0 AND expires_at IS NOT NULL AND expires_at <= v_now
                ORDER BY expires_at, seq
                LIMIT 1
            ),
            (SELECT due_at FROM waiting WHERE state = 1 AND queue = v_queue ORDER BY due_at, seq LIMIT 1)
        INTO v_is_late, v_due;
        IF v_is_late THEN
            WITH late AS MATERIALIZED (
                SELECT seq
                FROM waiting
                WHERE queue = v_queue AND attempt = 0 AND expires_at IS NOT NULL AND expires_at <= v_now
                ORDER BY expires_at, seq
                LIMIT p_move_max
                FOR UPDATE SKIP LOCKED
            ), gone AS (
                DELETE FROM waiting AS w USING late AS l WHERE w.seq = ANY (ARRAY[l.seq]) RETURNING w.*
            ), dead AS (
                INSERT INTO ended (
                    seq, finished_at, due_at, fence, backoff, attempt, stalls, ambiguous, state, queue, reason, progress
                )
                SELECT seq, v_now, due_at, fence, backoff, attempt, stalls, ambiguous, 5, queue, 'expired', progress
                FROM gone
            ), count AS (
                INSERT INTO counts (queue, blocked, scheduled, ready, dead)
                SELECT
                    v_queue, -count(*) FILTER (WHERE state = 0), -count(*) FILTER (WHERE state = 1),
                    -count(*) FILTER (WHERE state = 2), count(*)
                FROM gone
                HAVING count(*) > 0
            )
            SELECT v_died + count(*) INTO v_died FROM gone;
            PERFORM 1
            FROM waiting
            WHERE queue = v_queue AND attempt = 0 AND expires_at IS NOT NULL AND expires_at <= v_now
            ORDER BY expires_at, seq
            LIMIT 1;
            IF found THEN
                -- More than one call moves: they could be next in turn, and must not be handed out.
                v_next := v_now;
                CONTINUE;
            END IF;
            SELECT due_at INTO v_due FROM waiting WHERE state = 1 AND queue = v_queue ORDER BY due_at, seq LIMIT 1;
        END IF;
        IF v_due <= v_now THEN
            WITH due AS MATERIALIZED (
                SELECT seq
                FROM waiting
                WHERE state = 1 AND queue = v_queue AND due_at <= v_now
                ORDER BY due_at, seq
                LIMIT p_move_max
                FOR UPDATE SKIP LOCKED
            ), moved AS (
                UPDATE waiting AS w SET state = 2 FROM due AS d WHERE w.seq = ANY (ARRAY[d.seq]) RETURNING 1
            )
            INSERT INTO counts (queue, scheduled, ready)
            SELECT v_queue, -count(*), count(*) FROM moved HAVING count(*) > 0;
            -- They may have their place below the floor.
            v_from_floor := false;
            SELECT due_at INTO v_due FROM waiting WHERE state = 1 AND queue = v_queue ORDER BY due_at, seq LIMIT 1;
        END IF;
        v_next := least(v_next, v_due);
        v_want := least(p_shares[q], v_left);
        IF v_want <= 0 OR cardinality(p_kinds) = 0 THEN
            CONTINUE;
        END IF;
        IF v_from_floor THEN
            -- Level by level from its floor, and all that lies between two levels.
            v_places := '{}';
            v_sizes := '{}';
            v_above := 32768;
            FOR i IN 1 .. cardinality(p_floor_queues) + 1 LOOP
                CONTINUE WHEN p_floor_queues[i] <> q;
                EXIT WHEN cardinality(v_places) >= v_want;
                SELECT array_agg(c.ctid), array_agg(c.size) INTO v_more, v_more_sizes
                FROM (
                    SELECT l.ctid, l.size
                    FROM unnest(p_kinds) AS k (kind)
                    CROSS JOIN LATERAL (
                        SELECT w.ctid, w.seq, w.size, w.priority, w.due_at
                        FROM waiting AS w
                        WHERE w.state = 2 AND w.queue = v_queue AND w.kind = k.kind
                            AND (w.expires_at IS NULL OR w.attempt > 0 OR w.expires_at > v_now)
                            AND w.priority < v_above AND w.priority > coalesce(p_floor_priorities[i], -32769)
                        ORDER BY w.priority DESC, w.due_at, w.seq
                        LIMIT v_want - cardinality(v_places)
                        FOR UPDATE SKIP LOCKED
                    ) AS l
                    ORDER BY l.priority DESC, l.due_at, l.seq
                    LIMIT v_want - cardinality(v_places)
                ) AS c;
                v_places := v_places || v_more;
                v_sizes := v_sizes || v_more_sizes;
                v_above := p_floor_priorities[i];
                EXIT WHEN v_above IS NULL OR cardinality(v_places) >= v_want;
                SELECT array_agg(c.ctid), array_agg(c.size) INTO v_more, v_more_sizes
                FROM (
                    SELECT l.ctid, l.size
                    FROM unnest(p_kinds) AS k (kind)
                    CROSS JOIN LATERAL (
                        SELECT w.ctid, w.seq, w.size, w.due_at
                        FROM waiting AS w
                        WHERE w.state = 2 AND w.queue = v_queue AND w.kind = k.kind
                            AND (w.expires_at IS NULL OR w.attempt > 0 OR w.expires_at > v_now)
                            AND w.priority = v_above::int2 AND w.due_at >= p_floor_dues[i]
                        ORDER BY w.priority DESC, w.due_at, w.seq
                        LIMIT v_want - cardinality(v_places)
                        FOR UPDATE SKIP LOCKED
                    ) AS l
                    ORDER BY l.due_at, l.seq
                    LIMIT v_want - cardinality(v_places)
                ) AS c;
                v_places := v_places || v_more;
                v_sizes := v_sizes || v_more_sizes;
            END LOOP;
            SELECT sum(s.size) INTO v_bytes FROM unnest(v_sizes) AS s (size);
        ELSIF cardinality(p_kinds) = 1 THEN
            SELECT array_agg(c.ctid), array_agg(c.size), sum(c.size) INTO v_places, v_sizes, v_bytes
            FROM (
                SELECT ctid, size
                FROM waiting
                WHERE state = 2 AND queue = v_queue AND kind = p_kinds[1]
                    -- It may have been put back after the look for expired jobs.
                    AND (expires_at IS NULL OR attempt > 0 OR expires_at > v_now)
                ORDER BY priority DESC, due_at, seq
                LIMIT v_want
                FOR UPDATE SKIP LOCKED
            ) AS c;
        ELSE
            -- The first of each kind, merged; locked afterwards, so that no more is locked than taken.
            SELECT array_agg(c.seq) INTO v_seqs
            FROM (
                SELECT l.seq
                FROM unnest(p_kinds) AS k (kind)
                CROSS JOIN LATERAL (
                    SELECT w.seq, w.priority, w.due_at
                    FROM waiting AS w
                    WHERE w.state = 2 AND w.queue = v_queue AND w.kind = k.kind
                        AND (w.expires_at IS NULL OR w.attempt > 0 OR w.expires_at > v_now)
                    ORDER BY w.priority DESC, w.due_at, w.seq
                    LIMIT v_want
                ) AS l
                ORDER BY l.priority DESC, l.due_at, l.seq
                LIMIT v_want
            ) AS c;
            SELECT array_agg(c.ctid), array_agg(c.size), sum(c.size) INTO v_places, v_sizes, v_bytes
            FROM (
                SELECT w.ctid, w.size
                FROM unnest(v_seqs) AS s (seq)
                JOIN waiting AS w ON w.seq = ANY (ARRAY[s.seq])
                -- By an expression, so that nobody walks the index of all that are ready.
                WHERE w.state + 0 = 2
                FOR UPDATE OF w SKIP LOCKED
            ) AS c;
            IF cardinality(v_seqs) > coalesce(cardinality(v_places), 0) THEN
                -- Others claim here too. Locks more than is taken, for as long as this claim lasts.
                SELECT array_agg(c.ctid), array_agg(c.size), sum(c.size) INTO v_places, v_sizes, v_bytes
                FROM (
                    SELECT l.ctid, l.size
                    FROM unnest(p_kinds) AS k (kind)
                    CROSS JOIN LATERAL (
                        SELECT w.ctid, w.seq, w.size, w.priority, w.due_at
                        FROM waiting AS w
                        WHERE w.state = 2 AND w.queue = v_queue AND w.kind = k.kind
                            AND (w.expires_at IS NULL OR w.attempt > 0 OR w.expires_at > v_now)
                        ORDER BY w.priority DESC, w.due_at, w.seq
                        LIMIT v_want
                        FOR UPDATE SKIP LOCKED
                    ) AS l
                    ORDER BY l.priority DESC, l.due_at, l.seq
                    LIMIT v_want
                ) AS c;
            END IF;
        END IF;
        v_count := coalesce(cardinality(v_places), 0);
        IF v_count = 0 THEN
            CONTINUE;
        END IF;
        IF NOT v_is_locked THEN
            -- Whoever forgets the lease waits for this claim, or this claim for them. Not before there is something to
            -- take: a look that finds nothing writes nothing. By a time that is read after the wait.
            SELECT expires_at INTO v_expires_at FROM leases WHERE key = v_lease FOR KEY SHARE;
            IF v_expires_at IS NULL OR v_expires_at <= clock_micros() THEN
                o_answer := 'lost';
                RETURN NEXT;
                RETURN;
            END IF;
            v_is_locked := true;
        END IF;
        IF v_bytes > v_room THEN
            -- The one that does not fit ends the claim, or it would lose its turn to smaller ones.
            v_bytes := v_room;
            FOR i IN 1 .. v_count LOOP
                v_bytes := v_bytes - v_sizes[i];
                IF v_bytes < 0 AND NOT (v_is_first AND i = 1) THEN
                    v_count := i - 1;
                    v_left := 0;
                    EXIT;
                END IF;
            END LOOP;
            v_places := v_places[1:v_count];
            v_room := v_bytes;
            v_is_first := false;
            IF v_count = 0 THEN
                CONTINUE;
            END IF;
        ELSE
            v_room := v_room - v_bytes;
            v_is_first := false;
        END IF;
        RETURN QUERY
        WITH gone AS (
            -- They are locked, so they are where they were.
            DELETE FROM waiting WHERE ctid = ANY (v_places) RETURNING *
        ), taken AS (
            INSERT INTO running (
                seq, lease, nonce, fence, claimed_at, due_at, backoff, attempt, stalls, ambiguous, cancel, worker, progress,
                begun
            )
            SELECT
                g.seq, v_lease, p_nonce, g.fence + 1, v_now, g.due_at, g.backoff, least(g.attempt + 1, 4294967295),
                g.stalls, g.ambiguous, false, v_worker, g.progress, false
            FROM gone AS g
            RETURNING seq, fence, due_at, backoff, attempt, stalls, ambiguous
        ), count AS (
            INSERT INTO counts (queue, ready, running)
            SELECT v_queue, -count(*), count(*) FROM taken
        )
        SELECT
            'job', t.seq, j.id, q::int8, j.kind::text, j.payload, j.priority, t.fence, t.attempt, t.stalls, t.ambiguous,
            t.backoff, j.spec, j.tags::text, j.enqueued_at, t.due_at, v_now, j.form::int8
        FROM taken AS t
        JOIN jobs AS j ON j.seq = ANY (ARRAY[t.seq]);
        GET DIAGNOSTICS v_count = ROW_COUNT;
        v_left := greatest(v_left - v_count, 0);
    END LOOP;
    o_answer := 'end';
    o_seq := v_definitions;
    o_kind := v_worker;
    o_fence := v_died;
    o_attempt := pg_stat_get_xact_tuples_returned('waiting_ready'::regclass) - v_looked;
    o_due_at := CASE WHEN v_next IS NOT NULL THEN greatest(v_next - v_now, 0) END;
    o_claimed_at := v_now;
    RETURN NEXT;
END
$$;
