//! What `top` shows, and what keys do to it. Knows neither terminal nor store, so every key is tested without either.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use windlass_core::store::About;
use windlass_core::{JobId, Name};

use super::look::{Frame, JobLine, QueueLine, WorkerLine};

/// What is shown, and what is being asked.
#[derive(Debug)]
pub(super) struct View {
    pub(super) place: String,
    pub(super) frame: Option<Frame>,
    pub(super) pane: Pane,
    selected: [usize; 4],
    pub(super) filter: String,
    pub(super) mode: Mode,
    /// What came of the last thing that was done.
    pub(super) said: Option<String>,
    /// Why the last look failed; what is shown is then old.
    pub(super) failure: Option<String>,
    jobs_of: Option<Name>,
}

/// A part of the screen that keys are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Queues,
    Workers,
    Failures,
    /// The jobs of one queue, in the place of failures.
    Jobs,
}

/// What keys mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    /// Themselves.
    Normal,
    /// Letters of the filter.
    Filter,
    /// Yes or no to this.
    Ask(Action),
    /// Help is shown; any key ends it.
    Help,
}

/// What can be done to what is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Pause(Name),
    Resume(Name),
    Retry(JobId),
    Cancel(JobId),
}

impl Action {
    /// The question.
    pub(super) fn question(&self) -> String {
        match self {
            Self::Pause(queue) => format!("pause queue {queue}?"),
            Self::Resume(queue) => format!("resume queue {queue}?"),
            Self::Retry(id) => format!("retry job {id}?"),
            Self::Cancel(id) => format!("cancel job {id}?"),
        }
    }
}

/// What a key asks of those who can reach the store.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    None,
    Quit,
    /// Look now.
    Look,
    Act(Action),
}

impl View {
    pub(super) fn new(about: &About, filter: &str) -> Self {
        Self {
            place: format!("{} {}", about.scheme, about.place),
            frame: None,
            pane: Pane::Queues,
            selected: [0; 4],
            filter: filter.to_owned(),
            mode: Mode::Normal,
            said: None,
            failure: None,
            jobs_of: None,
        }
    }

    /// A look was taken.
    pub(super) fn saw(&mut self, frame: Frame) {
        self.frame = Some(frame);
        self.failure = None;
        self.stay_within();
    }

    /// A look failed.
    pub(super) fn failed(&mut self, why: &str) {
        self.failure = Some(why.to_owned());
    }

    /// Shows what came of something.
    pub(super) fn say(&mut self, text: &str) {
        self.said = Some(text.to_owned());
    }

    /// The queue whose jobs are shown.
    pub(super) fn jobs_of(&self) -> Option<Name> {
        self.jobs_of.clone()
    }

    pub(super) fn queues(&self) -> Vec<&QueueLine> {
        self.frame
            .iter()
            .flat_map(|frame| &frame.queues)
            .filter(|row| row.name.contains(&self.filter))
            .collect()
    }

    pub(super) fn workers(&self) -> Vec<&WorkerLine> {
        let matches = |worker: &&WorkerLine| {
            worker.name.contains(&self.filter)
                || worker.queues.iter().any(|queue| queue.as_str().contains(&self.filter))
        };
        self.frame.iter().flat_map(|frame| &frame.workers).filter(matches).collect()
    }

    /// Failures, or the jobs of the queue that was chosen.
    pub(super) fn jobs(&self) -> Vec<&JobLine> {
        let (is_of_queue, frame) = (self.jobs_of.is_some(), self.frame.iter());
        let all = frame.flat_map(|frame| if is_of_queue { &frame.jobs } else { &frame.failures });
        let matches = |job: &&JobLine| {
            is_of_queue
                || job.queue.as_str().contains(&self.filter)
                || job.kind.as_str().contains(&self.filter)
        };
        all.filter(matches).collect()
    }

    /// Which line of a pane is chosen.
    pub(super) fn selected(&self, pane: Pane) -> usize {
        self.selected[pane as usize]
    }

    fn length(&self, pane: Pane) -> usize {
        match pane {
            Pane::Queues => self.queues().len(),
            Pane::Workers => self.workers().len(),
            Pane::Failures | Pane::Jobs => self.jobs().len(),
        }
    }

    fn stay_within(&mut self) {
        for pane in [Pane::Queues, Pane::Workers, Pane::Failures, Pane::Jobs] {
            let last = self.length(pane).saturating_sub(1);
            self.selected[pane as usize] = self.selected[pane as usize].min(last);
        }
    }

    /// What a key does.
    pub(super) fn key(&mut self, key: KeyEvent) -> Wish {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Wish::Quit;
        }
        match self.mode.clone() {
            Mode::Filter => self.filter_key(key.code),
            Mode::Ask(action) => {
                self.mode = Mode::Normal;
                if matches!(key.code, KeyCode::Char('y' | 'Y')) { Wish::Act(action) } else { Wish::None }
            }
            Mode::Help => {
                self.mode = Mode::Normal;
                Wish::None
            }
            Mode::Normal => self.normal_key(key.code),
        }
    }

    fn filter_key(&mut self, key: KeyCode) -> Wish {
        match key {
            KeyCode::Enter => self.mode = Mode::Normal,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::Normal;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) if self.filter.len() < 128 => self.filter.push(c),
            _ => {}
        }
        self.stay_within();
        Wish::None
    }

    fn normal_key(&mut self, key: KeyCode) -> Wish {
        self.said = None;
        match key {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Tab => self.pane = self.after(self.pane),
            KeyCode::BackTab => self.pane = self.after(self.after(self.pane)),
            KeyCode::Down | KeyCode::Char('j') => self.selected[self.pane as usize] += 1,
            KeyCode::Up | KeyCode::Char('k') => {
                let selected = &mut self.selected[self.pane as usize];
                *selected = selected.saturating_sub(1);
            }
            KeyCode::Enter => return self.open_queue(),
            KeyCode::Esc => return self.back(),
            KeyCode::Char('p') => self.ask_pause(),
            KeyCode::Char('r') => self.ask_job(Action::Retry),
            KeyCode::Char('c') => self.ask_job(Action::Cancel),
            KeyCode::Char(' ') => return Wish::Look,
            _ => {}
        }
        self.stay_within();
        Wish::None
    }

    fn after(&self, pane: Pane) -> Pane {
        let below = if self.jobs_of.is_some() { Pane::Jobs } else { Pane::Failures };
        match pane {
            Pane::Queues => Pane::Workers,
            Pane::Workers => below,
            Pane::Failures | Pane::Jobs => Pane::Queues,
        }
    }

    fn chosen_queue(&self) -> Option<&QueueLine> {
        self.queues().get(self.selected(Pane::Queues)).copied()
    }

    /// Shows the jobs of the chosen queue.
    fn open_queue(&mut self) -> Wish {
        let name = self.chosen_queue().and_then(|row| Name::new(&row.name).ok());
        let (Pane::Queues, Some(name)) = (self.pane, name) else { return Wish::None };
        if let Some(frame) = &mut self.frame {
            frame.jobs.clear();
        }
        (self.jobs_of, self.pane) = (Some(name), Pane::Jobs);
        self.selected[Pane::Jobs as usize] = 0;
        Wish::Look
    }

    /// Back to the failures, or to all that the filter has left out.
    fn back(&mut self) -> Wish {
        if self.jobs_of.take().is_some() {
            self.pane = Pane::Queues;
        } else {
            self.filter.clear();
        }
        self.stay_within();
        Wish::None
    }

    fn ask_pause(&mut self) {
        let row = self.chosen_queue();
        let named = row.and_then(|row| Some((Name::new(&row.name).ok()?, row.is_paused)));
        match (self.pane, named) {
            (Pane::Queues, Some((queue, true))) => self.mode = Mode::Ask(Action::Resume(queue)),
            (Pane::Queues, Some((queue, false))) => self.mode = Mode::Ask(Action::Pause(queue)),
            _ => self.say("choose a queue to pause or resume"),
        }
    }

    fn ask_job(&mut self, action: fn(JobId) -> Action) {
        let chosen = self.jobs().get(self.selected(self.pane)).map(|job| job.id);
        match (self.pane, chosen) {
            (Pane::Failures | Pane::Jobs, Some(id)) => self.mode = Mode::Ask(action(id)),
            _ => self.say("choose a job first: Tab to the failures, or Enter on a queue for its jobs"),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
