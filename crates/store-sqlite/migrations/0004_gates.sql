-- Keys of jobs: behind which gate a ready job stands, whose turn it is, and what was spent of the rate of each key.

-- NULL: none. Rows with a key have form 2, so that claims of other jobs never walk them, and their indexes hold no others.
ALTER TABLE windlass_jobs ADD COLUMN key TEXT;

-- Behind each gate the ready jobs in their order, and those of each key that run.
CREATE INDEX windlass_jobs_line ON windlass_jobs (queue, key, priority DESC, due_at) WHERE form = 2 AND state = 2;
CREATE INDEX windlass_jobs_passed ON windlass_jobs (queue, key) WHERE form = 2 AND state = 3;

CREATE TABLE windlass_gates (
    queue   TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    turn    INTEGER NOT NULL,
    open_at INTEGER NOT NULL,             -- 0: it is open; the largest number: it waits for an end, or for a definition
    version INTEGER NOT NULL,             -- of the definition that it was closed by; an older one keeps no gate closed
    PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX windlass_gates_open ON windlass_gates (queue, turn, key) WHERE open_at = 0;
CREATE INDEX windlass_gates_closed ON windlass_gates (queue, version, open_at) WHERE open_at > 0;

-- As windlass_spent, for each key.
CREATE TABLE windlass_key_spent (
    queue   TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    back_at INTEGER NOT NULL,
    jobs    INTEGER NOT NULL,
    version INTEGER NOT NULL,             -- since which definition keys have this rate; what was spent of others does not count
    PRIMARY KEY (queue, key, back_at)
) STRICT, WITHOUT ROWID;

CREATE INDEX windlass_key_spent_time ON windlass_key_spent (back_at);
