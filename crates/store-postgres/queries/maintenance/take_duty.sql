-- Takes a duty, or keeps it; see Maintenance::take_duty.
--
-- result  how long another holder has it; none if it is p_holder's now
CREATE FUNCTION {function}(p_duty text, p_holder uuid, p_ttl int8) RETURNS TABLE (o_left int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
DECLARE
    v_now int8 := clock_micros();
    v_until int8 := later(v_now, p_ttl);
BEGIN
    -- Looked at first: most that ask do not get it, and write nothing.
    SELECT d.expires_at - v_now INTO o_left
    FROM duties AS d
    WHERE d.name = p_duty AND d.holder <> p_holder AND d.expires_at > v_now AND d.expires_at <= v_until;
    IF found THEN
        RETURN NEXT;
        RETURN;
    END IF;
    INSERT INTO duties AS d (name, holder, expires_at)
    VALUES (p_duty, p_holder, v_until)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
    WHERE d.holder = excluded.holder OR d.expires_at <= v_now OR d.expires_at > excluded.expires_at;
    IF NOT found THEN
        -- Another one was faster.
        o_left := p_ttl;
        RETURN NEXT;
    END IF;
END
$$;
