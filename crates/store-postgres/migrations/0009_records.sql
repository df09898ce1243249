-- Records of queues: small values under keys, beside the jobs. The name `records` is that of a view of jobs.

CREATE TABLE queue_records (
    queue      text COLLATE "C",
    key        text COLLATE "C" CHECK (octet_length(key) BETWEEN 1 AND 256),
    version    int8 NOT NULL,                     -- what its newest write left: any 64 bits
    written_at int8 NOT NULL,
    expires_at int8,                              -- from then on it is not there; NULL: it stays
    value      bytea NOT NULL,
    PRIMARY KEY (queue, key)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);

CREATE INDEX queue_records_oldest ON queue_records (expires_at) WHERE expires_at IS NOT NULL;
