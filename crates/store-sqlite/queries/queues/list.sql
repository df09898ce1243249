SELECT name, config, blocked, scheduled, ready, running, completed, dead, cancelled
FROM windlass_queues
WHERE name > ?1
ORDER BY name
LIMIT ?2
