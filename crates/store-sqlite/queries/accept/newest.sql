SELECT seq FROM windlass_jobs ORDER BY seq DESC LIMIT 1
