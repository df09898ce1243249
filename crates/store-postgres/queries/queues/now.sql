-- The present instant of the store's clock.
CREATE FUNCTION {function}() RETURNS TABLE (o_now int8)
LANGUAGE plpgsql VOLATILE SET search_path = {schema}, pg_temp
AS $$
BEGIN
    o_now := clock_micros();
    RETURN NEXT;
END
$$;
