-- Tallies: what happened to jobs, by queue, kind and interval. They belong to the name of a queue.

CREATE TABLE windlass_tallies (
    step  INTEGER NOT NULL,             -- minutes of the interval: 1, 10, 60; 0: a minute that is not folded into these yet
    queue TEXT    NOT NULL,
    at    INTEGER NOT NULL,             -- when the interval began
    kind  TEXT    NOT NULL,             -- empty: kinds that are counted together
    cells BLOB    NOT NULL,             -- version, then number and count of each cell; see the core
    PRIMARY KEY (step, queue, at, kind)
) STRICT, WITHOUT ROWID;

CREATE INDEX windlass_tallies_time ON windlass_tallies (step, at);
