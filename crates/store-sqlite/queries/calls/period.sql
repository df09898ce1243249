SELECT period, since FROM windlass_periods ORDER BY period DESC LIMIT 1
