-- Gives a duty back, if p_holder has it.
CREATE FUNCTION {function}(p_duty text, p_holder uuid) RETURNS TABLE (o_left int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
BEGIN
    DELETE FROM duties WHERE name = p_duty AND holder = p_holder;
END
$$;
