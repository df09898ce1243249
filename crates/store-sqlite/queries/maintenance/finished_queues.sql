SELECT name, config, completed, dead, cancelled
FROM windlass_queues
WHERE completed + dead + cancelled > 0
ORDER BY name
