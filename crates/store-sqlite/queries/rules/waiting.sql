SELECT blocked + scheduled + ready FROM windlass_queues WHERE name = ?1
