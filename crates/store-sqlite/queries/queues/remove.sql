DELETE FROM windlass_queues WHERE name = ?1
