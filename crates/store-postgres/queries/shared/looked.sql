-- How many places this transaction has looked at in the indexes by which a claim finds jobs.
pg_stat_get_xact_tuples_returned('waiting_ready'::regclass) + pg_stat_get_xact_tuples_returned('waiting_scheduled'::regclass)
    + pg_stat_get_xact_tuples_returned('waiting_expiring'::regclass)
