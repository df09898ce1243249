-- What keeps one sick part from harming others: rows that say their form, attempts that say whether they have begun,
-- leases that know their term, and calls that are remembered for a while.

-- Rows of a larger form than a program knows are left to a newer one.
ALTER TABLE windlass_jobs ADD COLUMN form INTEGER NOT NULL DEFAULT 1;
-- What became of the newest claim: 0 handed out, 1 its handler has begun, 2 taken back by a reaper.
ALTER TABLE windlass_jobs ADD COLUMN mark INTEGER NOT NULL DEFAULT 0;

-- How long a renewal lasts; NULL where a program that does not say so has opened it.
ALTER TABLE windlass_leases ADD COLUMN ttl INTEGER;

-- Calls that were accepted, by the period in which they were. Periods are counted, not computed from the clock, so a
-- clock that is set forward forgets nothing.
CREATE TABLE windlass_periods (
    period INTEGER PRIMARY KEY,
    since  INTEGER NOT NULL
) STRICT;

CREATE TABLE windlass_calls (
    period INTEGER NOT NULL,
    id     BLOB    NOT NULL,                     -- 16 bytes, made by the caller
    PRIMARY KEY (period, id)
) STRICT, WITHOUT ROWID;
