-- Records: small values under keys of a queue. They belong to no job and to no definition.

CREATE TABLE windlass_records (
    seq        INTEGER PRIMARY KEY,
    queue      TEXT    NOT NULL,
    key        BLOB    NOT NULL,             -- text, as bytes: they give the order, whatever the encoding of the file
    version    INTEGER NOT NULL,             -- 64 bits that the writer made; their sign says nothing
    written_at INTEGER NOT NULL,
    expires_at INTEGER,                      -- from when on it is not there; NULL: it stays
    value      BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX windlass_records_key ON windlass_records (queue, key);
CREATE INDEX windlass_records_time ON windlass_records (expires_at) WHERE expires_at IS NOT NULL;
