//! The in-memory store of Windlass: the readable reference, for tests and for work that may be lost.
