-- What is not there any more is not read, for it may be large.
SELECT key, version, written_at, expires_at, iif(expires_at <= ?3, NULL, value) FROM windlass_records
WHERE queue = ?1 AND key >= ?2 ORDER BY key LIMIT ?4
