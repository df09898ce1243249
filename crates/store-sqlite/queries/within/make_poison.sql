-- Holds a row that refers to one that is not there, which is tested when the transaction is committed.
CREATE TEMPORARY TABLE IF NOT EXISTS windlass_poison (
    stale   INTEGER PRIMARY KEY,
    missing INTEGER NOT NULL REFERENCES windlass_poison (stale) DEFERRABLE INITIALLY DEFERRED
)
