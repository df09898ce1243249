//! What is drawn, on a terminal of memory.

use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::super::view::tests::{frame, view};
use super::*;

/// The lines of a screen of this size.
fn screen(view: &View, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(view, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(line).collect()
}

fn shown() -> View {
    let mut view = view();
    view.saw(frame());
    view
}

#[test]
fn a_screen_has_all_parts() {
    let lines = screen(&shown(), 130, 32);
    let text = lines.join("\n");
    assert!(lines[0].starts_with("windlass top  sqlite jobs.db  00:00:30 UTC"), "{text}");
    assert!(lines[1].starts_with("! reports paused"), "{text}");
    for part in
        ["queues (3)", "workers (2)", "failures of the last hour (2)", "12345", "120.4", "99.6", "1m 40s"]
    {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert!(text.contains("reports (paused)") && text.contains("connection refused"), "{text}");
    assert!(lines.last().unwrap().starts_with("q quit"), "{text}");
}

#[test]
fn what_is_hostile_is_shown_and_not_obeyed() {
    let text = screen(&shown(), 130, 32).join("\n");
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
    assert!(text.contains("\\u{1b}[2J") && text.contains("\\u{202e}"), "{text}");
}

#[test]
fn a_question_and_help_are_shown() {
    let mut view = shown();
    view.key(KeyEvent::from(KeyCode::Char('p')));
    assert!(
        screen(&view, 100, 24)[23].starts_with("pause queue mail?  y yes"),
        "{:?}",
        screen(&view, 100, 24)
    );
    view.key(KeyEvent::from(KeyCode::Esc));
    view.key(KeyEvent::from(KeyCode::Char('?')));
    assert!(screen(&view, 100, 24).join("\n").contains("take"), "help is there");
}

#[test]
fn no_screen_is_too_small_and_no_answer_is_said() {
    let mut view = shown();
    for (width, height) in [(1, 1), (20, 3), (40, 10), (300, 100)] {
        assert_eq!(screen(&view, width, height).len(), usize::from(height));
    }
    view.failed("store unavailable: connection refused");
    assert!(screen(&view, 120, 24)[1].contains("what is shown is old: store unavailable"));
    assert_eq!(screen(&super::super::view::tests::view(), 80, 24).len(), 24, "before the first look");
}

#[test]
fn a_printed_frame_shows_every_line_and_no_keys() {
    let mut view = view();
    let many =
        (0..120).map(|number| QueueLine { name: format!("queue-{number:03}"), ..QueueLine::default() });
    view.saw(Look { queues: many.collect(), ..frame() });
    let lines = text(&view, 120);
    let text = lines.join("\n");
    for name in ["queue-000", "queue-119", "host-1", "failures of the last hour"] {
        assert!(text.contains(name), "no {name} in\n{text}");
    }
    assert!(!text.contains("q quit") && lines.iter().all(|line| line.chars().count() <= 120));
}
