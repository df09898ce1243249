-- Whether a queue has an open gate whose turn is in no run: true, or no row. By its place in the order of turns, since whether
-- there is any could be asked by reading all of its gates.
SELECT true FROM gates AS g
WHERE hashtext(g.queue) = hashtext(p_queue) AND g.queue = p_queue AND g.open_at = 0 AND NOT g.in_run
ORDER BY g.turn, g.key
LIMIT 1
