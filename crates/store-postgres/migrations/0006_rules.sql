-- What claims keep of the rules of queues: permits that were spent, and which jobs count for a concurrency.

-- Permits of the rates of queues, by the instant at which they come back; see Spent in the core. Claims of a queue with a rate
-- write here one after the other, and remove what is back.
CREATE TABLE spent (
    queue   text COLLATE "C",
    back_at int8,
    jobs    int8 NOT NULL,                        -- 0: a bucket, which is full at that instant
    PRIMARY KEY (queue, back_at)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- The queue of a job that was claimed while its queue had a concurrency; NULL for all others, which pay nothing for it.
ALTER TABLE running ADD COLUMN queue text COLLATE "C";
CREATE INDEX running_counted ON running (queue) WHERE queue IS NOT NULL;

-- Whether all jobs of a queue with a concurrency that run have their queue in running. 0: they have. Else since when claims
-- write it there, and the others are known by the counters only; NULL: no claim does yet.
ALTER TABLE queues ADD COLUMN counted_from int8;
