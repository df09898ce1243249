-- Notes for other processes. Who polls finds what a lost one was about, so the commit does not wait for the disk: the
-- worker that it wakes begins that much earlier.
--
-- $1       the channel of each
-- $2       each
-- result   nothing of use
SELECT pg_notify(n.channel, n.note)
FROM set_config('synchronous_commit', 'off', true) AS s (value)
CROSS JOIN unnest($1, $2) AS n (channel, note)
WHERE s.value = 'off'
