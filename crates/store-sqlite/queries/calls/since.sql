SELECT seq, period, since, ids FROM windlass_calls WHERE seq > ?1 ORDER BY seq
