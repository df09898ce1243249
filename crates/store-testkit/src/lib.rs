//! The contract of Windlass stores as code: clauses, model test and harness for any implementation.
