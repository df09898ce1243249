SELECT config FROM windlass_queues WHERE name = ?1
