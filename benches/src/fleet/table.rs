//! Figures beside the bounds that are wanted.

use std::time::Duration;

use comfy_table::{CellAlignment, Table as Printed, presets};

/// The table that a run ends with.
pub(super) struct Table {
    is_json: bool,
    rows: Vec<Row>,
}

struct Row {
    store: &'static str,
    scene: String,
    figure: String,
    wanted: String,
    is_met: Option<bool>,
}

/// What a figure should be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bound {
    AtMost(f64),
    AtLeast(f64),
    /// It is shown, and nothing is wanted of it.
    Shown,
}

impl Table {
    pub(super) fn new(is_json: bool) -> Self {
        Self { is_json, rows: Vec::new() }
    }

    /// Says what is being measured.
    pub(super) fn progress(&self, store: &str, what: &str) {
        eprintln!("… {store}: {what}");
    }

    /// A figure with its unit.
    pub(super) fn add(&mut self, store: &'static str, scene: &str, figure: f64, unit: &str, wanted: Bound) {
        let shown = |number: f64| {
            let digits = if number.abs() >= 100.0 { 0 } else { 2 };
            format!("{number:.digits$}{unit}")
        };
        let (text, is_met) = match wanted {
            Bound::AtMost(most) => (format!("≤ {}", shown(most)), Some(figure <= most)),
            Bound::AtLeast(least) => (format!("≥ {}", shown(least)), Some(figure >= least)),
            Bound::Shown => (String::new(), None),
        };
        self.rows.push(Row { store, scene: scene.to_owned(), figure: shown(figure), wanted: text, is_met });
    }

    /// A time in milliseconds.
    pub(super) fn time(&mut self, store: &'static str, scene: &str, time: Duration, wanted: Bound) {
        self.add(store, scene, time.as_secs_f64() * 1e3, " ms", wanted);
    }

    pub(super) fn print(&self) {
        if self.is_json {
            for Row { store, scene, figure, wanted, is_met } in &self.rows {
                let line = serde_json::json!({
                    "store": store, "scene": scene, "figure": figure, "wanted": wanted, "is_met": is_met,
                });
                println!("{line}");
            }
            return;
        }
        let mut table = Printed::new();
        table.load_style(presets::NOTHING);
        table.set_header(["store", "scene", "figure", "wanted", "met"]);
        for Row { store, scene, figure, wanted, is_met } in &self.rows {
            let met = is_met.map_or("", |is_met| if is_met { "yes" } else { "no" });
            table.add_row([*store, scene, figure, wanted, met]);
        }
        for column in [2, 3] {
            table.column_mut(column).expect("five columns").set_cell_alignment(CellAlignment::Right);
        }
        println!("{table}");
    }
}
