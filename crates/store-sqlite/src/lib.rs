//! The SQLite store of Windlass: durable jobs in one embedded file.
