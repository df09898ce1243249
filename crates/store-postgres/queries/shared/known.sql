-- The queues by their places, without those that use a rule which this program does not know.
ARRAY(
    SELECT CASE WHEN d.rules > {rules} THEN NULL ELSE q.name END
    FROM unnest(p_queues) WITH ORDINALITY AS q (name, place) LEFT JOIN queues AS d ON d.name = ANY (ARRAY[q.name])
    ORDER BY q.place
)
