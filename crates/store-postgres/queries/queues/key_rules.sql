-- Reads the rules for keys of a definition. One that does not read has none; see QueueConfig::unreadable in the core.
--
-- result  how many jobs of a key may run at once (NULL: any number); how many may start, as in queues/rules; weights and pauses by
--         key; and the text of the rate
CREATE FUNCTION {function}(p_config text) RETURNS TABLE (
    o_concurrency int8, o_jobs int8, o_per int8, o_shape text, o_burst int8, o_step int8, o_weights jsonb, o_pauses jsonb,
    o_rate text
)
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_rules record;
    v_config jsonb;
    v_keys jsonb;
BEGIN
    BEGIN
        v_config := p_config;
        v_keys := nullif(v_config -> 'keys', 'null');
        o_weights := v_keys -> 'weights';
        o_pauses := v_config #> '{pauses,keys}';
        IF v_keys ? 'rate' THEN
            -- They say concurrency and rate as a queue does.
            SELECT r.* INTO v_rules FROM {queues_rules}(v_keys::text, 0) AS r;
            o_concurrency := v_rules.o_concurrency; o_jobs := v_rules.o_jobs; o_per := v_rules.o_per; o_shape := v_rules.o_shape;
            o_burst := v_rules.o_burst; o_step := v_rules.o_step; o_rate := v_rules.o_rate;
        ELSE
            o_concurrency := v_keys ->> 'concurrency';
        END IF;
    EXCEPTION
        WHEN OTHERS THEN NULL;
    END;
    o_weights := coalesce(o_weights, '{}'); o_pauses := coalesce(o_pauses, '{}');
    RETURN NEXT;
END
$$;
