-- Jobs with a key count for it only where a concurrency is to be held: in all other queues what runs is not written a second time.
-- An end tells what it knows, and only where a gate is closed.

-- Turns of open gates by runs: of many keys that have the same turn, one row says it. To write the turn of each gate was a sixth of
-- what a job with a key cost. A gate whose turn is in a run says so, and has another one in its row.
CREATE TABLE gate_runs (
    queue text COLLATE "C" NOT NULL,
    turn  int8 NOT NULL,
    first text COLLATE "C" NOT NULL,              -- of the keys, by their bytes
    last  text COLLATE "C" NOT NULL,
    keys  text[] NOT NULL,                        -- each in one run
    count int8 NOT NULL                           -- how many they are
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_threshold = -1
);

ALTER TABLE gate_runs ALTER COLUMN keys SET STORAGE EXTERNAL;
CREATE INDEX gate_runs_first ON gate_runs (queue, turn, first);
ALTER TABLE gates ADD COLUMN in_run bool NOT NULL DEFAULT false;

-- What tells two gates apart comes first, and what is compared before that has a fixed place in an entry: most of what a claim of many
-- keys costs is to find the place of an entry. Programs of before find the first gates by sorting all, by turns that may be of before.
ALTER TABLE gates DROP CONSTRAINT gates_pkey;
ALTER TABLE gates ADD CONSTRAINT gates_pkey PRIMARY KEY (key, queue);
DROP INDEX gates_open;
CREATE INDEX gates_open ON gates (hashtext(queue), turn, key) WHERE open_at = 0 AND NOT in_run;

-- Adds what gates have to be told, in rows of a bounded length. It locks nothing that a claim needs; the next claim that looks
-- at the gates takes them away.
--
-- p_queues  the queue of each key, or one for all; p_keys may name a key more than once, and NULL for none
CREATE OR REPLACE FUNCTION gates_tell(p_queues text[], p_keys text[], p_is_ended bool) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
BEGIN
    IF cardinality(p_queues) = 1 AND cardinality(p_keys) <= 500 THEN
        -- As most calls do, for less.
        INSERT INTO gate_reports (queue, keys, count, is_ended)
        SELECT p_queues[1], array_agg(k.key), count(*), p_is_ended
        FROM (SELECT DISTINCT unnest(p_keys) AS key) AS k
        WHERE k.key IS NOT NULL
        HAVING count(*) > 0;
        RETURN;
    END IF;
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

-- Tells gates that jobs with a key run no longer.
--
-- Those that count for their key are in gate_jobs. The others have closed no gate: a gate that is closed for another reason is
-- told as well, as each end opens it, and one that is closed at this moment is closed after this end.
--
-- p_queues  the queue of each job, or one for all
-- p_keys    the key of each job; NULL: jobs has them, since none is removed
CREATE FUNCTION gates_left(p_queues text[], p_jobs int8[], p_keys text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_queues text[];
    v_keys text[];
BEGIN
    WITH gone AS (
        DELETE FROM gate_jobs WHERE seq = ANY (p_jobs) RETURNING queue, key
    )
    SELECT array_agg(g.queue::text), array_agg(g.key::text) INTO v_queues, v_keys FROM gone AS g;
    IF v_keys IS NOT NULL THEN
        PERFORM gates_tell(CASE WHEN cardinality(p_queues) = 1 THEN p_queues ELSE v_queues END, v_keys, true);
        IF cardinality(v_keys) = cardinality(p_jobs) THEN
            RETURN;
        END IF;
    END IF;
    IF NOT EXISTS (
        SELECT 1
        FROM (SELECT DISTINCT unnest(p_queues) AS name) AS q
        WHERE EXISTS (SELECT 1 FROM gates AS g WHERE g.queue = q.name AND g.open_at > 0)
    ) THEN
        RETURN;
    END IF;
    IF p_keys IS NULL THEN
        SELECT array_agg(j.queue::text), array_agg(j.key::text) INTO p_queues, p_keys
        FROM jobs AS j
        WHERE j.seq = ANY (p_jobs) AND j.key IS NOT NULL;
    END IF;
    SELECT array_agg(k.queue), array_agg(k.key) INTO v_queues, v_keys
    FROM (
        SELECT coalesce(p_queues[k.place], p_queues[1]) AS queue, k.key FROM unnest(p_keys) WITH ORDINALITY AS k (key, place)
    ) AS k
    WHERE (SELECT g.open_at + 0 > 0 FROM gates AS g WHERE g.queue = k.queue AND g.key = k.key);
    PERFORM gates_tell(v_queues, v_keys, true);
END
$$;

-- Whether every running job with a key counts for it, in a queue that says how many jobs of a key may run. If not, the next claim sees
-- to it, unless fewer jobs run in all than may of a key.
ALTER TABLE queues ADD COLUMN keys_counted bool NOT NULL DEFAULT false;

-- Lets those jobs of a queue count that run and do not. The definition of the queue is locked, so no claim comes meanwhile. What a
-- call ends at this moment is left out.
CREATE FUNCTION gates_count(p_queue text) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO gate_jobs (seq, queue, key)
    SELECT k.seq, k.queue, k.key
    FROM (
        SELECT r.seq, j.queue, j.key
        FROM running AS r
        JOIN jobs AS j ON j.seq = ANY (ARRAY[r.seq])
        WHERE r.seq & 2 = 2 AND j.queue = p_queue AND j.key IS NOT NULL
        FOR KEY SHARE OF r SKIP LOCKED
    ) AS k
    ON CONFLICT (seq) DO NOTHING;
END
$$;

-- A definition that says how many jobs of a key may run lets those count that run already, whichever program writes it; unless
-- it says as many as claims need not count yet (queries/jobs/claim/far.sql).
CREATE FUNCTION queues_counted() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_most numeric;
BEGIN
    BEGIN
        v_most := NEW.config::jsonb #>> '{keys,concurrency}';
    EXCEPTION
        WHEN OTHERS THEN NULL; -- It does not read, and so has no rules.
    END;
    NEW.keys_counted := v_most IS NOT NULL AND (OLD.keys_counted OR v_most < 3000);
    IF NEW.keys_counted AND NOT OLD.keys_counted THEN
        PERFORM gates_count(NEW.name);
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER queues_counted BEFORE UPDATE ON queues
FOR EACH ROW WHEN (OLD.config IS DISTINCT FROM NEW.config)
EXECUTE FUNCTION queues_counted();

-- The one way for a job from a state to the next. Functions that write where a job stands call it in the same transaction,
-- once for all jobs that go the same way, and it does what follows from that.
--
-- p_queue       the queue of all of them; NULL: p_queues has the queue of each
-- p_from, p_to  states; -1 for outside: before it is accepted, and after it is removed
-- p_reason      why it is dead or cancelled
-- p_jobs        their numbers; at least one
-- p_is_kept     false where the queue keeps none of this end: they come to it, and are removed at once
-- p_keys        the key of each, which claims take turns by; NULL: jobs has them, but for jobs that are removed
-- result        how many there are
--
-- It is told everything and looks at no row that says where these jobs stand: the statement that it is called in may not have
-- written them. The gates of jobs that are accepted are told by accept.
DROP FUNCTION moves(text, int8, int8, text, int8[], bool, text[]);
CREATE FUNCTION moves(
    p_queue text, p_from int8, p_to int8, p_reason text, p_jobs int8[], p_is_kept bool DEFAULT true,
    p_queues text[] DEFAULT NULL, p_keys text[] DEFAULT NULL
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
            PERFORM gates_left(CASE WHEN p_queue IS NULL THEN p_queues ELSE ARRAY[p_queue] END, p_jobs, p_keys);
        END IF;
        IF v_bits & 2 = 2 AND p_to = 2 THEN
            SELECT array_agg(j.queue::text), array_agg(j.key::text) INTO v_queues, v_keys
            FROM jobs AS j
            WHERE j.seq = ANY (p_jobs) AND j.key IS NOT NULL;
            PERFORM gates_tell(v_queues, v_keys, false);
        END IF;
        IF v_bits & 1 = 1 AND (p_to > 2 OR p_to < 0) THEN
            PERFORM keys_leave(p_jobs, p_to = 3);
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
