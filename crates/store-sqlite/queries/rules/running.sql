SELECT running FROM windlass_queues WHERE name = ?1
