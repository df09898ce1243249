//! Everything that goes to standard output. Commands hand in rows, lines or documents; this decides how they
//! look: tables as wide as the terminal, plain columns elsewhere, JSON when asked for. Writes answer errors
//! instead of panicking, so a reader that closes the pipe ends the command quietly.

pub(crate) mod clean;
pub(crate) mod content;
pub(crate) mod json;
pub(crate) mod text;

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anstream::AutoStream;
use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width, presets,
};
use serde::Serialize;
use windlass_core::{JobRecord, State};

/// Standard output, as the command line asked for it.
#[derive(Debug)]
pub(crate) struct Output {
    stream: AutoStream<io::Stdout>,
    format: Format,
}

/// Who reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// A program.
    Json,
    /// A person at a terminal.
    Terminal,
    /// A person, later, or a pipe.
    Plain,
}

impl Output {
    /// Standard output: JSON if asked for, otherwise text.
    pub(crate) fn new(json: bool) -> Self {
        let format = match (json, io::stdout().is_terminal()) {
            (true, _) => Format::Json,
            (false, true) => Format::Terminal,
            (false, false) => Format::Plain,
        };
        Self { stream: anstream::stdout(), format }
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// One line of text. What comes out of a store must have been cleaned.
    pub(crate) fn line(&mut self, line: impl Display) -> io::Result<()> {
        writeln!(self.stream, "{line}").map_err(|error| unwritten(&error))
    }

    /// Bytes as they are, for scripts that a shell reads.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).map_err(|error| unwritten(&error))
    }

    /// One JSON document on one line.
    pub(crate) fn json(&mut self, document: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string(document).map_err(io::Error::other)?;
        writeln!(self.stream, "{}", clean::json(&text)).map_err(|error| unwritten(&error))
    }

    /// A table, which is one line per row unless a terminal is too narrow.
    pub(crate) fn table(&mut self, mut table: Table) -> io::Result<()> {
        table.column_iter_mut().for_each(|column| {
            column.set_padding((0, 2));
        });
        table.lines().try_for_each(|line| {
            writeln!(self.stream, "{}", line.trim_end()).map_err(|error| unwritten(&error))
        })
    }

    /// An empty table for this output.
    pub(crate) fn new_table(&self, header: &[&str]) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        if self.format == Format::Terminal {
            // Styles are always written; the stream removes them when colours are not wanted.
            table.set_content_arrangement(ContentArrangement::Dynamic).enforce_styling();
        } else {
            table.set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
        }
        if !header.is_empty() {
            table.set_header(header.iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
        }
        table
    }

    /// Sees to it that everything has been written.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.stream.flush().map_err(|error| unwritten(&error))
    }
}

/// Says what failed and keeps the kind, for a closed pipe is not an error.
fn unwritten(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write the output: {error}"))
}

/// Keeps these columns whole on a narrow terminal, because an id that is broken over two lines cannot be
/// copied, and the others readable. The terminal wraps what is too wide all the same.
pub(crate) fn keep_whole(table: &mut Table, columns: &[usize]) {
    const READABLE: u16 = 16;
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_constraint(if columns.contains(&index) {
            ColumnConstraint::ContentWidth
        } else {
            ColumnConstraint::LowerBoundary(Width::Fixed(READABLE))
        });
    }
}

/// A cell with stored text on one line.
pub(crate) fn cell(text: impl AsRef<str>) -> Cell {
    Cell::new(clean::line(text.as_ref()))
}

/// A cell with a number; zero is shown faintly, because the others matter.
pub(crate) fn number(number: u64) -> Cell {
    let cell = Cell::new(number).set_alignment(CellAlignment::Right);
    if number == 0 { cell.add_attribute(Attribute::Dim) } else { cell }
}

/// A cell with the state of a job. One that was claimed and whose handler is not known to have begun is said to be so:
/// it may wait for a slot, or have only just started.
pub(crate) fn standing(job: &JobRecord) -> Cell {
    match job.state {
        State::Running if !job.has_begun => Cell::new("claimed").fg(Color::Cyan),
        other => state(other),
    }
}

/// A cell with a state in its colour.
pub(crate) fn state(state: State) -> Cell {
    let cell = Cell::new(state.as_str());
    match state {
        State::Blocked | State::Scheduled => cell.fg(Color::Yellow),
        State::Ready => cell.fg(Color::Blue),
        State::Running => cell.fg(Color::Cyan),
        State::Completed => cell.fg(Color::Green),
        State::Dead => cell.fg(Color::Red),
        State::Cancelled => cell.add_attribute(Attribute::Dim),
    }
}
