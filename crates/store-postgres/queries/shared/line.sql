-- Whether a waiting job is ready and stands in the line of a key; to be followed by what else must hold and by the order.
w.state = 2 AND hashtext(w.queue) = hashtext(p_queue) AND hashtext(w.kind) = hashtext('#' || a.key)
AND w.queue = p_queue AND w.kind = '#' || a.key
