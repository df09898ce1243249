DELETE FROM windlass_held
WHERE (queue, digest, id) IN (
    SELECT j.queue, j.unique_digest, j.id FROM windlass_jobs AS j WHERE j.seq > ?1 AND j.unique_digest IS NOT NULL
)
