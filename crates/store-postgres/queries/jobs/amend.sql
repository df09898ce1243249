-- Changes that a person asks for: 'cancel', 'withdraw', 'retry' or 'delete'.
--
-- p_ids   one after the other, so an id may stand twice
-- p_states, p_fences  what each must still have, or it is refused; NULL: anything
-- result  one row per id: whether it was 'done', 'refused' or 'missing', and the state; or 'held', and the job that holds its
--         unique key; or 'locked' by an open transaction, which no other job is to wait for
CREATE FUNCTION {function}(p_verb text, p_ids uuid[], p_states int8[], p_fences int8[])
RETURNS TABLE (o_answer text, o_state int8, o_holder uuid)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
    v_id uuid;
    v_seq int8;
    v_queue text;
    v_kind text;
    v_waiting waiting;
    v_ended ended;
    v_moved int8;
    v_held text;
BEGIN
    FOR place IN 1 .. cardinality(p_ids) LOOP
        v_id := p_ids[place];
        o_answer := 'missing';
        o_state := NULL;
        o_holder := NULL;
        -- The job may move between two looks: then the next round finds it where it went.
        FOR round IN 1 .. 100 LOOP
            SELECT seq, queue INTO v_seq, v_queue FROM jobs WHERE id = v_id;
            EXIT WHEN NOT found;
            SELECT * INTO v_waiting FROM waiting WHERE seq = v_seq FOR UPDATE SKIP LOCKED;
            IF found THEN
                o_answer := 'done';
                o_state := v_waiting.state;
                IF (v_waiting.state, v_waiting.fence) <> (p_states[place], p_fences[place]) THEN
                    o_answer := 'refused';
                    EXIT;
                END IF;
                IF p_verb IN ('cancel', 'withdraw') THEN
                    DELETE FROM waiting WHERE seq = v_seq;
                    INSERT INTO ended (
                        seq, finished_at, due_at, fence, backoff, attempt, stalls, ambiguous, state, queue, reason,
                        progress
                    )
                    VALUES (
                        v_seq, v_now, v_waiting.due_at, v_waiting.fence, v_waiting.backoff, v_waiting.attempt,
                        v_waiting.stalls, v_waiting.ambiguous, 6, v_queue, 'requested', v_waiting.progress
                    );
                    v_moved := moves(v_queue, o_state, 6, 'requested', ARRAY[v_seq]);
                    o_state := 6;
                ELSIF p_verb = 'delete' THEN
                    DELETE FROM waiting WHERE seq = v_seq;
                    DELETE FROM attempts WHERE seq = v_seq;
                    DELETE FROM jobs WHERE seq = v_seq RETURNING kind INTO v_kind;
                    v_moved := moves(v_queue, o_state, -1, NULL, ARRAY[v_seq], p_kinds => ARRAY[v_kind]);
                ELSIF o_state < 2 THEN
                    -- Scheduled or held. An outcome of before comes too late: a person wants the job to run.
                    UPDATE waiting SET state = 2, due_at = v_now, nonce = NULL WHERE seq = v_seq;
                    v_moved := moves(v_queue, o_state, 2, NULL, ARRAY[v_seq]);
                    o_state := 2;
                ELSE
                    o_answer := 'refused';
                END IF;
                EXIT;
            END IF;
            IF p_verb = 'cancel' THEN
                PERFORM 1 FROM running WHERE seq = v_seq FOR NO KEY UPDATE SKIP LOCKED;
            ELSE
                PERFORM 1 FROM running WHERE seq = v_seq;
            END IF;
            IF found THEN
                IF p_verb = 'cancel' THEN
                    UPDATE running SET cancel = true WHERE seq = v_seq;
                END IF;
                o_answer := CASE p_verb WHEN 'cancel' THEN 'done' ELSE 'refused' END;
                o_state := 3;
                EXIT;
            END IF;
            SELECT * INTO v_ended FROM ended WHERE seq = v_seq FOR UPDATE SKIP LOCKED;
            IF found THEN
                o_answer := 'done';
                o_state := v_ended.state;
                IF (v_ended.state, v_ended.fence) <> (p_states[place], p_fences[place]) THEN
                    o_answer := 'refused';
                    EXIT;
                END IF;
                IF p_verb = 'delete' THEN
                    DELETE FROM ended WHERE seq = v_seq;
                    DELETE FROM attempts WHERE seq = v_seq;
                    DELETE FROM jobs WHERE seq = v_seq;
                    v_moved := moves(v_queue, o_state, -1, NULL, ARRAY[v_seq]);
                ELSIF p_verb = 'retry' AND o_state >= 5 THEN
                    v_held := key_again(v_now, v_seq);
                    IF v_held IS NOT NULL THEN
                        o_answer := CASE v_held WHEN 'locked' THEN 'locked' ELSE 'held' END;
                        o_holder := CASE v_held WHEN 'locked' THEN NULL ELSE v_held::uuid END;
                        EXIT;
                    END IF;
                    -- Begins anew: its expiry does not count any more, since the caller asks for it to run now.
                    DELETE FROM ended WHERE seq = v_seq;
                    UPDATE jobs SET expires_at = NULL WHERE seq = v_seq AND expires_at IS NOT NULL;
                    INSERT INTO waiting (
                        seq, due_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind
                    )
                    SELECT
                        seq, v_now, v_ended.fence, 0, 0, 0, 0, octet_length(payload), 2, priority, queue,
                        coalesce('#' || key, kind)
                    FROM jobs
                    WHERE seq = v_seq;
                    v_moved := moves(v_queue, o_state, 2, NULL, ARRAY[v_seq]);
                    o_state := 2;
                ELSE
                    o_answer := 'refused';
                END IF;
                EXIT;
            END IF;
            o_answer := 'locked';
            PERFORM 1 FROM waiting WHERE seq = v_seq;
            EXIT WHEN found;
            PERFORM 1 FROM running WHERE seq = v_seq;
            EXIT WHEN found;
            PERFORM 1 FROM ended WHERE seq = v_seq;
            EXIT WHEN found;
            o_answer := 'missing';
        END LOOP;
        RETURN NEXT;
    END LOOP;
END
$$;
