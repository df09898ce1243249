//! Draws a view. The same for a terminal, for a test, and for a frame that is printed.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Clear, Paragraph, Row, Table, TableState, Wrap};
use windlass_core::Timestamp;
use windlass_core::store::Level;

use super::look::{Frame as Look, JobLine, QueueLine, WorkerLine};
use super::view::{Mode, Pane, View};
use crate::output::{clean, text};

const KEYS: &str =
    "q quit  Tab part  ↑↓ choose  Enter jobs of a queue  p pause/resume  r retry  c cancel  / filter  ? help";

const HELP: &str = "\
Tab, Shift-Tab   go to the next part: queues, workers, failures
↑ ↓  or  k j     choose a line
Enter            on a queue: its jobs that have not ended
Esc              back; also takes the filter away
p                pause or resume the chosen queue
r                retry the chosen job
c                cancel the chosen job
/                show only what has this text in its name
Space            look now
q, Ctrl-C        quit

IN/S and DONE/S are told from the counts of two looks; a dash where finished jobs were
removed meanwhile, or are not kept.";

/// Styles; none where colours are not wanted.
fn coloured(color: Color) -> Style {
    if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        Style::new()
    } else {
        Style::new().fg(color)
    }
}

/// Draws all of it.
pub(super) fn draw(view: &View, frame: &mut ratatui::Frame<'_>) {
    let area = frame.area();
    let [head, verdict, queues, workers, jobs, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(3),
        Constraint::Fill(1),
        Constraint::Fill(2),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(title(view), head);
    frame.render_widget(verdict_line(view), verdict);
    draw_queues(view, frame, queues);
    draw_workers(view, frame, workers);
    draw_jobs(view, frame, jobs);
    frame.render_widget(footer(view), foot);
    if view.mode == Mode::Help {
        let [area] = Layout::horizontal([Constraint::Max(92)]).areas(area);
        let help = Rect { height: area.height.min(16), ..area };
        frame.render_widget(Clear, help);
        frame.render_widget(
            Paragraph::new(HELP).wrap(Wrap { trim: false }).block(Block::bordered().title("keys")),
            help,
        );
    }
}

/// A frame as lines of text, as high as what it shows.
pub(super) fn text(view: &View, width: u16) -> Vec<String> {
    let rows = view.queues().len().max(view.jobs().len()).max(view.workers().len()).max(4);
    // Each of the three parts has room for the longest of them.
    let height = u16::try_from(rows.min(1_000) * 7 + 20).unwrap_or(u16::MAX);
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(_) = terminal.draw(|frame| draw(view, frame));
    let buffer = terminal.backend().buffer();
    let line = |y: u16| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
    // Without the keys, which a printed frame has none of.
    let lines = (0..height - 1).map(line).map(|line| line.trim_end().to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

fn title(view: &View) -> Line<'static> {
    let at = view.frame.as_ref().map_or_else(|| "looking…".to_owned(), |frame| clock(frame.at));
    let mut spans = vec![
        Span::styled("windlass top  ", Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(clean::line(&view.place).into_owned()),
        Span::raw(format!("  {at}")),
    ];
    if !view.filter.is_empty() || view.mode == Mode::Filter {
        let cursor = if view.mode == Mode::Filter { "_" } else { "" };
        spans.push(Span::styled(
            format!("  filter: {}{cursor}", clean::line(&view.filter)),
            coloured(Color::Yellow),
        ));
    }
    Line::from(spans)
}

/// The time of day, in UTC as all times here.
fn clock(at: Timestamp) -> String {
    let text = at.to_string();
    text.get(11..19).map_or(text.clone(), |time| format!("{time} UTC"))
}

fn verdict_line(view: &View) -> Line<'static> {
    if let Some(failure) = &view.failure {
        let text = format!("✗ the store does not answer, and what is shown is old: {}", clean::line(failure));
        return Line::styled(text, coloured(Color::Red).add_modifier(Modifier::BOLD));
    }
    let Some(Look { verdict, .. }) = &view.frame else { return Line::raw("") };
    let (mark, color) = match verdict.level {
        Level::Ok => ("✓", Color::Green),
        Level::Warning => ("!", Color::Yellow),
        Level::Problem => ("✗", Color::Red),
    };
    let text = format!("{mark} {}", clean::line(&verdict.text()));
    Line::styled(text, coloured(color).add_modifier(Modifier::BOLD))
}

fn footer(view: &View) -> Line<'static> {
    match (&view.mode, &view.said) {
        (Mode::Ask(action), _) => {
            let text = format!("{}  y yes, any other key no", action.question());
            Line::styled(text, coloured(Color::Yellow).add_modifier(Modifier::BOLD))
        }
        (Mode::Filter, _) => Line::raw("type what names must contain; Enter keeps it, Esc takes it away"),
        (_, Some(said)) => Line::raw(clean::line(said).into_owned()),
        _ => Line::styled(KEYS, Style::new().add_modifier(Modifier::DIM)),
    }
}

fn block(view: &View, pane: Pane, title: String) -> Block<'static> {
    let style = if view.pane == pane {
        Style::new().add_modifier(Modifier::BOLD)
    } else {
        Style::new().add_modifier(Modifier::DIM)
    };
    Block::new().borders(Borders::TOP).title(Span::styled(title, style))
}

fn header(titles: &[&'static str]) -> Row<'static> {
    Row::new(titles.iter().map(|title| Cell::new(*title))).style(Style::new().add_modifier(Modifier::BOLD))
}

fn table(view: &View, frame: &mut ratatui::Frame<'_>, area: Rect, pane: Pane, table: Table<'_>) {
    let mut state = TableState::new();
    if view.pane == pane {
        state.select(Some(view.selected(pane)));
    }
    let table = table.column_spacing(2).row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, area, &mut state);
}

fn draw_queues(view: &View, frame: &mut ratatui::Frame<'_>, area: Rect) {
    const TITLES: [&str; 11] = [
        "QUEUE",
        "READY",
        "RUNNING",
        "SCHEDULED",
        "BLOCKED",
        "DEAD",
        "IN/S",
        "DONE/S",
        "OLDEST",
        "OVERDUE",
        "WORKERS",
    ];
    let queues = view.queues();
    let rows = queues.iter().map(|queue| queue_row(queue));
    let numbers = [8, 8, 9, 8, 8, 8, 8, 10, 8, 8].map(Constraint::Length);
    let widths = [Constraint::Min(16)].into_iter().chain(numbers);
    let title = format!("queues ({})", queues.len());
    let made = Table::new(rows, widths).header(header(&TITLES)).block(block(view, Pane::Queues, title));
    table(view, frame, area, Pane::Queues, made);
}

fn queue_row(queue: &QueueLine) -> Row<'static> {
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    let count = |count: u64, color: Color| {
        let cell = Cell::new(count.to_string());
        if count == 0 {
            cell.style(Style::new().add_modifier(Modifier::DIM))
        } else {
            cell.style(coloured(color))
        }
    };
    let name = if queue.is_paused { format!("{} (paused)", queue.name) } else { queue.name.clone() };
    let name_style = match (queue.lacks_workers, queue.is_paused) {
        (_, true) => coloured(Color::Yellow),
        (true, false) => coloured(Color::Red),
        _ => Style::new(),
    };
    Row::new([
        Cell::new(clean::line(&name).into_owned()).style(name_style),
        count(queue.ready, Color::Blue),
        count(queue.running, Color::Cyan),
        count(queue.scheduled, Color::Yellow),
        count(queue.blocked, Color::Yellow),
        count(queue.dead, Color::Red),
        Cell::new(rate(queue.accepted_per_second)),
        Cell::new(rate(queue.completed_per_second)),
        Cell::new(queue.oldest.clone()),
        count(queue.overdue, Color::Yellow),
        Cell::new(if queue.workers == 0 { "none".to_owned() } else { queue.workers.to_string() }),
    ])
}

fn draw_workers(view: &View, frame: &mut ratatui::Frame<'_>, area: Rect) {
    let workers = view.workers();
    let rows = workers.iter().map(|worker| worker_row(worker));
    let widths = [Constraint::Min(24), Constraint::Length(6), Constraint::Length(8), Constraint::Fill(2)];
    let title = format!("workers ({})", workers.len());
    let made = Table::new(rows, widths)
        .header(header(&["WORKER", "LEASE", "RUNNING", "QUEUES"]))
        .block(block(view, Pane::Workers, title));
    table(view, frame, area, Pane::Workers, made);
}

fn worker_row(worker: &WorkerLine) -> Row<'static> {
    let (standing, color) = if worker.is_lost { ("lost", Color::Red) } else { ("alive", Color::Green) };
    let queues: Vec<&str> = worker.queues.iter().map(windlass_core::Name::as_str).collect();
    Row::new([
        Cell::new(clean::line(&worker.name).into_owned()),
        Cell::new(standing).style(coloured(color)),
        Cell::new(worker.running.to_string()),
        Cell::new(queues.join(" ")),
    ])
}

fn draw_jobs(view: &View, frame: &mut ratatui::Frame<'_>, area: Rect) {
    let jobs = view.jobs();
    let now = view.frame.as_ref().map_or(Timestamp::from_micros(0), |frame| frame.at);
    let (pane, title) = match view.jobs_of() {
        Some(queue) => (Pane::Jobs, format!("jobs of {queue} that have not ended ({})", jobs.len())),
        None => (Pane::Failures, format!("failures of the last hour ({})", jobs.len())),
    };
    let rows = jobs.iter().map(|job| job_row(job, now));
    let widths = [
        Constraint::Length(9),
        Constraint::Length(36),
        Constraint::Length(14),
        Constraint::Length(14),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Fill(1),
    ];
    let made = Table::new(rows, widths)
        .header(header(&["AGO", "ID", "QUEUE", "KIND", "STATE", "ATTEMPT", "ERROR"]))
        .block(block(view, pane, title));
    table(view, frame, area, pane, made);
}

fn job_row(job: &JobLine, now: Timestamp) -> Row<'static> {
    Row::new([
        text::duration(text::coarse(now.since(job.at))),
        job.id.to_string(),
        job.queue.to_string(),
        job.kind.to_string(),
        job.state.to_string(),
        job.attempt.to_string(),
        clean::line(job.error.as_deref().unwrap_or_default()).into_owned(),
    ])
}

#[cfg(test)]
mod tests;
