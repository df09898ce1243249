-- What was spent of the rates of queues: how many permits, and when they come back. Of a bucket there is one row without
-- permits, whose instant is when it is full again.
CREATE TABLE windlass_spent (
    queue   TEXT    NOT NULL,
    back_at INTEGER NOT NULL,
    jobs    INTEGER NOT NULL,
    PRIMARY KEY (queue, back_at)
) STRICT, WITHOUT ROWID;
