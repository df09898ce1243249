//! What comes next in a flow, given what has ended.

use super::{Edge, Graph, OnFailure, Progress, Role, Status};

/// What a flow asks for, in this order. All of it may be repeated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// Jobs that may start.
    pub release: Vec<u32>,
    /// Jobs that no longer can start, and are cancelled unless they run.
    pub withdraw: Vec<u32>,
    /// Jobs that are asked to stop.
    pub stop: Vec<u32>,
    /// There is more to release than was asked for.
    pub has_more: bool,
}

/// What those that a job waits for say about it.
enum Verdict {
    Waits,
    Starts,
    Ends(Status),
    CancelsRest,
}

impl Graph {
    /// Moves a progress on by what has ended, and answers what is to be done. At most `limit` jobs are released.
    ///
    /// Jobs stand behind those that they wait for, so one pass sees every consequence.
    pub fn advance(&self, progress: &mut Progress, ended: &[(u32, Status)], limit: usize) -> Step {
        for &(place, status) in ended {
            if progress.nodes[place as usize] == Status::Open {
                progress.nodes[place as usize] = status;
            }
        }
        let (mut step, jobs) = (Step::default(), self.jobs());
        let open = progress.nodes[..jobs].iter().filter(|status| **status == Status::Open).count();
        let alive = self.alive_max.map_or(usize::MAX, |alive| alive as usize);
        let free = alive.saturating_sub(open);
        let mut room = free.min(limit);
        for (place, node) in self.nodes[..jobs].iter().enumerate() {
            if progress.is_cancelled {
                break;
            }
            if progress.nodes[place] != Status::Waiting {
                continue;
            }
            match verdict(&node.parents, &progress.nodes) {
                Verdict::Waits => {}
                // What has no room because others are alive starts when one of them ends.
                Verdict::Starts if room == 0 => step.has_more |= step.release.len() < free,
                Verdict::Starts => {
                    room -= 1;
                    progress.nodes[place] = Status::Open;
                    step.release.push(place as u32);
                }
                Verdict::Ends(status) => {
                    progress.nodes[place] = status;
                    step.withdraw.push(place as u32);
                }
                Verdict::CancelsRest => progress.is_cancelled = true,
            }
        }
        if progress.is_cancelled {
            cancel_rest(&mut progress.nodes[..jobs], &mut step);
        }
        self.call_back(progress, jobs, &mut step);
        step
    }

    /// Starts the callbacks whose time has come, and ends those whose time never comes.
    fn call_back(&self, progress: &mut Progress, jobs: usize, step: &mut Step) {
        let is_abandoned = progress.is_abandoned;
        let (of_jobs, of_callbacks) = progress.nodes.split_at_mut(jobs);
        if of_callbacks.is_empty() {
            return;
        }
        let has_failed = of_jobs.iter().any(|status| status.is_failure());
        let is_over = of_jobs.iter().all(|status| status.has_ended());
        for (place, (node, status)) in self.nodes[jobs..].iter().zip(of_callbacks).enumerate() {
            let starts = match node.role {
                Role::Job => false,
                // Nothing of it has ever begun.
                _ if is_abandoned => false,
                Role::OnSuccess => is_over && !has_failed,
                Role::OnEnd => is_over,
                Role::OnFirstFailure => has_failed,
            };
            let place = (jobs + place) as u32;
            if *status == Status::Waiting && starts {
                *status = Status::Open;
                step.release.push(place);
            } else if *status == Status::Waiting && is_over {
                *status = Status::Skipped;
                step.withdraw.push(place);
            }
        }
    }

    /// Sends failed parts back: what died or was cancelled is open again, what did not run because of it waits again. Answers
    /// what is to start. A flow that was cancelled goes on.
    pub fn send_back(&self, progress: &mut Progress) -> Vec<u32> {
        let mut again = Vec::new();
        progress.is_cancelled = false;
        for (place, status) in progress.nodes.iter_mut().enumerate() {
            match status {
                Status::Dead => {
                    *status = Status::Open;
                    again.push(place as u32);
                }
                Status::Cancelled | Status::Failed | Status::Skipped => *status = Status::Waiting,
                _ => {}
            }
        }
        progress.is_again = true;
        again
    }
}

/// Ends what waits, and asks what runs to stop. What was about to start does not.
fn cancel_rest(jobs: &mut [Status], step: &mut Step) {
    let started = std::mem::take(&mut step.release);
    step.has_more = false;
    for (place, status) in jobs.iter_mut().enumerate() {
        let place = place as u32;
        match status {
            Status::Waiting => {
                *status = Status::Cancelled;
                step.withdraw.push(place);
            }
            // Places in `started` ascend.
            Status::Open if started.binary_search(&place).is_ok() => {
                *status = Status::Cancelled;
                step.withdraw.push(place);
            }
            Status::Open => step.stop.push(place),
            _ => {}
        }
    }
}

/// What a job that waits comes to. The strongest policy of those that have failed counts, and it waits for those that may bring a
/// stronger one: so the order of ends does not matter.
fn verdict(parents: &[Edge], nodes: &[Status]) -> Verdict {
    let (mut failed, mut open) = (0, None);
    for edge in parents {
        let (parent, strength) = (nodes[edge.parent as usize], strength(edge.on_failure));
        if !parent.has_ended() {
            open = open.max(Some(strength));
        } else if parent.is_failure() {
            failed = failed.max(strength);
        }
    }
    match failed {
        CANCELS => Verdict::CancelsRest,
        _ if open > Some(failed) || (open.is_some() && failed == 0) => Verdict::Waits,
        FAILS => Verdict::Ends(Status::Failed),
        SKIPS => Verdict::Ends(Status::Skipped),
        _ => Verdict::Starts,
    }
}

const CANCELS: u8 = 3;
const FAILS: u8 = 2;
const SKIPS: u8 = 1;

const fn strength(on_failure: OnFailure) -> u8 {
    match on_failure {
        OnFailure::CancelRest => CANCELS,
        OnFailure::Fail => FAILS,
        OnFailure::Skip => SKIPS,
        OnFailure::Run => 0,
    }
}
