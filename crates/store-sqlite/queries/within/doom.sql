INSERT INTO temp.windlass_doom (missing) VALUES (-1)
