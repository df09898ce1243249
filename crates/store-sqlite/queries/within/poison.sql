INSERT INTO temp.windlass_poison (missing) VALUES (-1)
