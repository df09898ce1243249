-- Those who hand in jobs by SQL need no right but to call these two: they act with the rights of the schema's owner, on the
-- path that they were made with, which names the store's schema and puts temporary tables last.
ALTER FUNCTION enqueue(text, json, text, int4, interval, timestamptz, interval, interval, text[], uuid) SECURITY DEFINER;
ALTER FUNCTION wake() SECURITY DEFINER;
REVOKE ALL ON FUNCTION enqueue(text, json, text, int4, interval, timestamptz, interval, interval, text[], uuid) FROM PUBLIC;
REVOKE ALL ON FUNCTION wake() FROM PUBLIC;
