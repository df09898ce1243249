-- Makes the transaction that it is called in unable to commit.
CREATE FUNCTION {function}() RETURNS TABLE (o_never int8)
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    RAISE EXCEPTION 'the attempt has lost its fence: the job was taken back, and what was done for it here is undone'
    USING ERRCODE = 'WL002';
END
$$;
