DELETE FROM windlass_periods WHERE period < ?1
