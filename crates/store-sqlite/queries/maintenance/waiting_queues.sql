SELECT name FROM windlass_queues WHERE blocked + scheduled + ready > 0 ORDER BY name
