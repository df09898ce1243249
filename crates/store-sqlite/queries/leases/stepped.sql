SELECT
    (SELECT value FROM windlass_meta WHERE key = 'stepped_at'),
    (SELECT value FROM windlass_meta WHERE key = 'stepped_by')
