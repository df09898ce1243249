-- Unique keys: which one a job was enqueued with, and which job holds each key now.

ALTER TABLE windlass_jobs ADD COLUMN unique_digest BLOB;      -- 16 bytes; NULL: the job has no key
ALTER TABLE windlass_jobs ADD COLUMN unique_lifetime TEXT;    -- how long it holds the key: start, end, window N, slot N

-- Rows outlive their job where a key is held for a time, so the holder is named by its id.
CREATE TABLE windlass_keys (
    queue   TEXT    NOT NULL,
    digest  BLOB    NOT NULL,
    id      BLOB    NOT NULL,             -- the job that holds it
    free_at INTEGER,                      -- from when on it is free; NULL: its job gives it up
    PRIMARY KEY (queue, digest)
) STRICT, WITHOUT ROWID;

CREATE INDEX windlass_keys_time ON windlass_keys (free_at) WHERE free_at IS NOT NULL;
