SELECT config IS NOT NULL, blocked, scheduled, ready, running, completed, dead, cancelled
FROM windlass_queues
WHERE name = ?1
