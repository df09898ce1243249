//! Each key, and what it does.

use windlass_core::store::{About, Durability, Level, Sharing};
use windlass_core::{State, Timestamp};

use super::super::verdict::Assessment;
use super::*;

pub(in super::super) fn view() -> View {
    let (durability, sharing) = (Durability::PowerCut, Sharing::Store);
    View::new(&About { scheme: "sqlite", place: "jobs.db".into(), durability, sharing }, "")
}

pub(in super::super) fn job(number: u8, state: State, error: Option<&str>) -> JobLine {
    JobLine {
        id: JobId::from_bytes([number; 16]),
        queue: "mail".parse().unwrap(),
        kind: "send".parse().unwrap(),
        state,
        attempt: 3,
        at: Timestamp::from_micros(1_893_456_000_000_000),
        error: error.map(str::to_owned),
    }
}

pub(in super::super) fn frame() -> Frame {
    let at = Timestamp::from_micros(1_893_456_030_000_000);
    let row = |name: &str| QueueLine { name: name.into(), workers: 1, ..QueueLine::default() };
    let busy = QueueLine {
        ready: 12_345,
        running: 8,
        dead: 2,
        accepted_per_second: Some(120.4),
        completed_per_second: Some(99.6),
        oldest: "1m 40s".into(),
        ..row("mail")
    };
    let paused = QueueLine { is_paused: true, ready: 7, ..row("reports") };
    let workers = vec![
        WorkerLine {
            name: "host-1".into(),
            is_lost: false,
            running: 8,
            queues: vec!["mail".parse().unwrap()],
            opened_at: at,
        },
        WorkerLine {
            name: "host\u{1b}[2J".into(),
            is_lost: true,
            running: 1,
            queues: Vec::new(),
            opened_at: at,
        },
    ];
    let failures = vec![job(1, State::Dead, Some("connection refused\u{202e}")), job(2, State::Dead, None)];
    let queues = vec![busy, paused, row("thumbnails")];
    let verdict = Assessment { level: Level::Warning, reasons: vec!["reports paused".into()] };
    Frame { at, verdict, queues, workers, failures, jobs: vec![job(9, State::Running, None)] }
}

fn press(view: &mut View, code: KeyCode) -> Wish {
    view.key(KeyEvent::from(code))
}

fn typed(view: &mut View, text: &str) {
    text.chars().for_each(|c| assert_eq!(press(view, KeyCode::Char(c)), Wish::None));
}

fn shown() -> View {
    let mut view = view();
    view.saw(frame());
    view
}

#[test]
fn keys_quit() {
    assert_eq!(press(&mut shown(), KeyCode::Char('q')), Wish::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    let mut view = shown();
    press(&mut view, KeyCode::Char('/'));
    assert_eq!(view.key(interrupt), Wish::Quit, "also while something is typed");
}

#[test]
fn a_queue_is_paused_and_resumed_after_a_question() {
    let mut view = shown();
    assert_eq!(press(&mut view, KeyCode::Char('p')), Wish::None);
    let action = Action::Pause("mail".parse().unwrap());
    assert_eq!(view.mode, Mode::Ask(action.clone()));
    assert_eq!(press(&mut view, KeyCode::Char('n')), Wish::None, "only y means yes");
    assert_eq!(view.mode, Mode::Normal);
    press(&mut view, KeyCode::Char('p'));
    assert_eq!(press(&mut view, KeyCode::Char('y')), Wish::Act(action));
    press(&mut view, KeyCode::Down);
    press(&mut view, KeyCode::Char('p'));
    assert_eq!(view.mode, Mode::Ask(Action::Resume("reports".parse().unwrap())));
}

#[test]
fn a_failure_is_retried_and_a_job_of_a_queue_cancelled() {
    let mut view = shown();
    press(&mut view, KeyCode::Char('r'));
    assert_eq!((&view.mode, view.said.is_some()), (&Mode::Normal, true), "no job is chosen among queues");
    press(&mut view, KeyCode::Tab);
    press(&mut view, KeyCode::Tab);
    assert_eq!(view.pane, Pane::Failures);
    press(&mut view, KeyCode::Char('j'));
    press(&mut view, KeyCode::Char('r'));
    assert_eq!(press(&mut view, KeyCode::Char('y')), Wish::Act(Action::Retry(JobId::from_bytes([2; 16]))));

    press(&mut view, KeyCode::Tab);
    assert_eq!(press(&mut view, KeyCode::Enter), Wish::Look);
    assert_eq!((view.pane, view.jobs_of()), (Pane::Jobs, Some("mail".parse().unwrap())));
    assert!(view.jobs().is_empty(), "failures are not taken for jobs of the queue");
    view.saw(frame());
    press(&mut view, KeyCode::Char('c'));
    assert_eq!(press(&mut view, KeyCode::Char('y')), Wish::Act(Action::Cancel(JobId::from_bytes([9; 16]))));
    press(&mut view, KeyCode::Esc);
    assert_eq!((view.pane, view.jobs_of()), (Pane::Queues, None));
}

#[test]
fn a_filter_is_typed_and_taken_away() {
    let mut view = shown();
    press(&mut view, KeyCode::Char('/'));
    typed(&mut view, "thq");
    press(&mut view, KeyCode::Backspace);
    assert_eq!(view.queues().iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["thumbnails"]);
    press(&mut view, KeyCode::Enter);
    assert_eq!((view.mode.clone(), view.filter.as_str()), (Mode::Normal, "th"));
    press(&mut view, KeyCode::Esc);
    assert_eq!(view.queues().len(), 3);
}

#[test]
fn the_choice_stays_within_what_is_shown() {
    let mut view = shown();
    for _ in 0..9 {
        press(&mut view, KeyCode::Down);
    }
    assert_eq!(view.selected(Pane::Queues), 2);
    view.saw(Frame { queues: frame().queues[..1].to_vec(), ..frame() });
    assert_eq!(view.selected(Pane::Queues), 0);
    press(&mut view, KeyCode::Up);
    view.saw(Frame { queues: Vec::new(), ..frame() });
    press(&mut view, KeyCode::Char('p'));
    assert_eq!(view.mode, Mode::Normal, "nothing is chosen where nothing is");
}
