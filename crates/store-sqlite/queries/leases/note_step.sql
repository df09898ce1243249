INSERT INTO windlass_meta (key, value) VALUES ('stepped_at', ?1), ('stepped_by', ?2)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
