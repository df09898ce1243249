-- Notes for other processes. A transaction that does nothing else is not flushed to the disk.
--
-- $1       the channel of each
-- $2       each
-- result   nothing of use
SELECT pg_notify(n.channel, n.note)
FROM unnest($1, $2) AS n (channel, note)
