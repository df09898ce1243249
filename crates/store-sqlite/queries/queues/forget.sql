DELETE FROM windlass_queues
WHERE name = ?1 AND config IS NULL AND blocked + scheduled + ready + running + completed + dead + cancelled = 0
