-- What keeps one sick part from harming others: rows that say their form, attempts that say whether they have begun,
-- leases that know their term, and calls that are remembered for a while.

-- Rows of a larger form than a program knows are left to a newer one.
ALTER TABLE windlass_jobs ADD COLUMN form INTEGER NOT NULL DEFAULT 1;
-- What became of the newest claim: 0 handed out, 1 its handler has begun, 2 taken back by a reaper.
ALTER TABLE windlass_jobs ADD COLUMN mark INTEGER NOT NULL DEFAULT 0;

-- How long a renewal lasts; NULL where a program that does not say so has opened it.
ALTER TABLE windlass_leases ADD COLUMN ttl INTEGER;

-- An attempt that was taken back and ended all the same has two records.
ALTER TABLE windlass_attempts RENAME TO windlass_attempts_1;
CREATE TABLE windlass_attempts (
    seq        INTEGER NOT NULL,
    fence      INTEGER NOT NULL,
    late       INTEGER NOT NULL DEFAULT 0,       -- 1: what the attempt said after it was taken back
    number     INTEGER NOT NULL,
    worker     TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    ending     TEXT    NOT NULL,
    error      TEXT,
    PRIMARY KEY (seq, fence, late)
) STRICT, WITHOUT ROWID;
INSERT INTO windlass_attempts (seq, fence, number, worker, started_at, ended_at, ending, error)
SELECT seq, fence, number, worker, started_at, ended_at, ending, error FROM windlass_attempts_1 ORDER BY seq, fence;
DROP TABLE windlass_attempts_1;

-- Calls that were accepted: a row for each transaction that brought some. Periods are counted, not computed from the
-- clock, so a clock that is set forward forgets nothing. The newest row is never deleted.
CREATE TABLE windlass_calls (
    seq    INTEGER PRIMARY KEY,
    period INTEGER NOT NULL,
    since  INTEGER NOT NULL,                     -- when the period began
    ids    BLOB    NOT NULL                      -- 16 bytes each, made by the callers
) STRICT;
