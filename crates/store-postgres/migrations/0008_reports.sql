-- What gates have to be told, as one row per call instead of one per key: a call about a thousand keys wrote and deleted a
-- thousand rows for it.

CREATE TABLE gate_reports (
    id       int8 GENERATED ALWAYS AS IDENTITY,
    queue    text COLLATE "C" NOT NULL,
    keys     text[] NOT NULL,                     -- each once
    count    int8 NOT NULL,                       -- how many they are
    is_ended bool NOT NULL                        -- a job of each runs no longer: the gate opens; else one is ready: it is made
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1
);

-- To pack keys takes longer than to write them.
ALTER TABLE gate_reports ALTER COLUMN keys SET STORAGE EXTERNAL;
CREATE INDEX gate_reports_queue ON gate_reports (queue, id);

-- Adds what gates have to be told, in rows of a bounded length. It locks nothing that a claim needs; the next claim that looks
-- at the gates takes them away.
--
-- p_queues  the queue of each key, or one for all; p_keys may name a key more than once, and NULL for none
CREATE FUNCTION gates_tell(p_queues text[], p_keys text[], p_is_ended bool) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO gate_reports (queue, keys, count, is_ended)
    SELECT r.queue, array_agg(r.key), count(*), p_is_ended
    FROM (
        SELECT d.queue, d.key, row_number() OVER () AS place
        FROM (
            SELECT coalesce(p_queues[k.place], p_queues[1]) AS queue, k.key
            FROM unnest(p_keys) WITH ORDINALITY AS k (key, place)
            WHERE k.key IS NOT NULL
            GROUP BY 1, 2
        ) AS d
    ) AS r
    GROUP BY r.queue, (r.place - 1) / 500;
END
$$;

-- Transactions that have added some end first: what they add is not lost.
LOCK TABLE gate_notes IN ACCESS EXCLUSIVE MODE;
SELECT gates_tell(array_agg(n.queue::text), array_agg(n.key::text), n.ended) FROM gate_notes AS n GROUP BY n.ended;
DROP TABLE gate_notes;

-- For programs that know one row per key: their claims read and delete here, and calls that waited for this step add.
CREATE VIEW gate_notes (id, queue, key, came, ended) AS
SELECT r.id, r.queue, unnest(r.keys) COLLATE "C", NOT r.is_ended, r.is_ended FROM gate_reports AS r;

CREATE FUNCTION gate_notes_told() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM gate_reports WHERE queue = OLD.queue AND id = OLD.id;
    RETURN OLD;
END
$$;

CREATE FUNCTION gate_notes_came() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM gates_tell(ARRAY[NEW.queue::text], ARRAY[NEW.key::text], NEW.ended);
    RETURN NEW;
END
$$;

CREATE TRIGGER gate_notes_came INSTEAD OF INSERT ON gate_notes FOR EACH ROW EXECUTE FUNCTION gate_notes_came();
CREATE TRIGGER gate_notes_told INSTEAD OF DELETE ON gate_notes FOR EACH ROW EXECUTE FUNCTION gate_notes_told();

-- The one way for a job from a state to the next. Functions that write where a job stands call it in the same transaction,
-- once for all jobs that go the same way, and it does what follows from that.
--
-- p_queue       the queue of all of them; NULL: p_queues has the queue of each
-- p_from, p_to  states; -1 for outside: before it is accepted, and after it is removed
-- p_reason      why it is dead or cancelled
-- p_jobs        their numbers; at least one
-- p_is_kept     false where the queue keeps none of this end: they come to it, and are removed at once
-- result        how many there are
--
-- It is told everything and looks at no row that says where these jobs stand: the statement that it is called in may not have
-- written them. The gates of jobs that are accepted are told by accept.
CREATE OR REPLACE FUNCTION moves(
    p_queue text, p_from int8, p_to int8, p_reason text, p_jobs int8[], p_is_kept bool DEFAULT true,
    p_queues text[] DEFAULT NULL
) RETURNS int8
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_bits int8;
    v_queues text[];
    v_keys text[];
    v_job int8;
    v_answer text;
BEGIN
    IF p_queue IS NOT NULL THEN
        INSERT INTO moved (state_before, state, jobs, queue)
        VALUES (p_from, CASE WHEN p_is_kept THEN p_to ELSE -1 END, cardinality(p_jobs), p_queue);
    ELSE
        INSERT INTO moved (state_before, state, jobs, queue)
        SELECT p_from, CASE WHEN p_is_kept THEN p_to ELSE -1 END, count(*), q.name
        FROM unnest(p_queues) AS q (name)
        GROUP BY q.name;
    END IF;
    -- Tallies come here, by queue, p_to and p_reason. Then what is known by the numbers of jobs, of which most have neither bit.
    IF p_from >= 0 AND (p_jobs[1] & 3 <> 0 OR cardinality(p_jobs) > 1) THEN
        v_bits := CASE
            WHEN cardinality(p_jobs) = 1 THEN p_jobs[1] ELSE (SELECT bit_or(j.seq) FROM unnest(p_jobs) AS j (seq))
        END;
        IF v_bits & 2 = 2 AND p_from = 3 THEN
            WITH gone AS (
                DELETE FROM gate_jobs WHERE seq = ANY (p_jobs) RETURNING queue, key
            )
            SELECT array_agg(g.queue::text), array_agg(g.key::text) INTO v_queues, v_keys FROM gone AS g;
            PERFORM gates_tell(v_queues, v_keys, true);
        END IF;
        IF v_bits & 2 = 2 AND p_to = 2 THEN
            SELECT array_agg(j.queue::text), array_agg(j.key::text) INTO v_queues, v_keys
            FROM jobs AS j
            WHERE j.seq = ANY (p_jobs) AND j.key IS NOT NULL;
            PERFORM gates_tell(v_queues, v_keys, false);
        END IF;
        IF v_bits & 1 = 1 AND (p_to > 2 OR p_to < 0) THEN
            DELETE FROM keys
            WHERE seq = ANY (ARRAY(SELECT j.seq FROM unnest(p_jobs) AS j (seq) WHERE j.seq & 1 = 1))
                AND free_at IS NULL AND (at_start OR p_to <> 3);
        ELSIF v_bits & 1 = 1 AND p_from > 3 THEN
            -- A program that knows of keys has asked before. One that does not must not let a job run beside the holder.
            FOREACH v_job IN ARRAY p_jobs LOOP
                v_answer := key_again(clock_micros(), v_job);
                IF v_answer IS NOT NULL THEN
                    RAISE EXCEPTION 'another job (%) holds the unique key: retry with a newer program', v_answer
                    USING ERRCODE = 'lock_not_available';
                END IF;
            END LOOP;
        END IF;
    END IF;
    -- Here come, in this order: dependents, which are told of an end; follow-ups, which are accepted at an end.
    RETURN cardinality(p_jobs);
END
$$;
