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
    v_keys jsonb;
BEGIN
    BEGIN
        v_keys := nullif(p_config::jsonb -> 'keys', 'null');
        -- They say concurrency and rate as a queue does.
        SELECT r.* INTO v_rules FROM {queues_rules}(coalesce(v_keys, '{}')::text, 0) AS r;
        o_concurrency := v_rules.o_concurrency; o_jobs := v_rules.o_jobs; o_per := v_rules.o_per; o_shape := v_rules.o_shape;
        o_burst := v_rules.o_burst; o_step := v_rules.o_step; o_rate := v_rules.o_rate;
        o_weights := v_keys -> 'weights';
        o_pauses := p_config::jsonb #> '{pauses,keys}';
    EXCEPTION
        WHEN OTHERS THEN NULL;
    END;
    o_weights := coalesce(o_weights, '{}'); o_pauses := coalesce(o_pauses, '{}');
    RETURN NEXT;
END
$$;
