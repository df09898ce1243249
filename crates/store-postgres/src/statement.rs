//! Statements that call the store's functions, spelled out once per store.

use std::collections::HashMap;

use crate::functions::{self, Function};

/// The statements for one schema.
#[derive(Debug)]
pub(crate) struct Statements {
    texts: HashMap<&'static str, String>,
}

impl Statements {
    /// For a schema, which is quoted.
    pub(crate) fn new(schema: &str) -> Self {
        let text = |function: &Function| (function.name, function.call(schema));
        let mut texts: HashMap<_, _> = functions::ALL.iter().map(text).collect();
        texts.extend(functions::spelled_out(schema));
        Self { texts }
    }

    /// The text that calls a function.
    pub(crate) fn of(&self, function: &Function) -> &str {
        &self.texts[function.name]
    }
}
