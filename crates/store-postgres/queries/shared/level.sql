-- Whether a waiting job is ready and stands in a line; to be followed by the order.
w.state = 2 AND hashtext(w.queue) = hashtext(p_queue) AND hashtext(w.kind) = hashtext(a.line)
AND w.queue = p_queue AND w.kind = a.line
