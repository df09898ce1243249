INSERT INTO windlass_queues (name, blocked, scheduled, ready, running, completed, dead, cancelled)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (name) DO UPDATE SET
    blocked = blocked + excluded.blocked,
    scheduled = scheduled + excluded.scheduled,
    ready = ready + excluded.ready,
    running = running + excluded.running,
    completed = completed + excluded.completed,
    dead = dead + excluded.dead,
    cancelled = cancelled + excluded.cancelled
