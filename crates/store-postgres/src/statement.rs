//! Statements that call the store's functions, spelled out once per store.

use std::collections::HashMap;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::error::Fault;
use crate::functions::{self, Function, HAND_OVER};
use crate::session::Session;

/// Parameters of a statement, in order.
pub(crate) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The statements for one schema.
#[derive(Debug)]
pub(crate) struct Statements {
    calls: HashMap<&'static str, String>,
}

impl Statements {
    pub(crate) fn new(schema: &str) -> Self {
        let call = |function: &Function| (function.name, function.call(schema));
        let mut calls: HashMap<_, _> = functions::ALL.iter().map(call).collect();
        calls.insert(HAND_OVER.name, functions::hand_over(schema));
        Self { calls }
    }

    /// The text of a call.
    pub(crate) fn call(&self, function: &Function) -> &str {
        &self.calls[function.name]
    }

    /// Calls a function.
    pub(crate) async fn run(
        &self,
        session: &Session,
        function: &Function,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Fault> {
        session.call(function, self.call(function), parameters).await
    }

    /// Calls a function that answers exactly one row.
    pub(crate) async fn run_one(
        &self,
        session: &Session,
        function: &Function,
        parameters: Parameters<'_>,
    ) -> Result<Row, Fault> {
        let rows = self.run(session, function, parameters).await?;
        rows.into_iter().next().ok_or_else(|| Fault::Corrupt(format!("{} gave no row", function.name)))
    }
}
