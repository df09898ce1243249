//! The engine of Windlass: client, handlers, worker and its loops.
