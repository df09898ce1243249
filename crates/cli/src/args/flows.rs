//! The arguments of `flows`.

use clap::{Args, Subcommand};
use windlass_core::{JobId, Name};

use super::examples::flows as examples;

#[derive(Debug, Subcommand)]
pub(crate) enum FlowsCommand {
    /// List flows, the oldest first, with how far each is
    #[command(after_help = examples::LIST)]
    List(FlowsListArgs),
    /// Show a flow: how far it is, and its jobs with what each waits for
    ///
    /// Jobs stand below those that they wait for, one line for each; more than three that differ in nothing share one. At most
    /// 200 lines are drawn, those first that have failed or are under way.
    #[command(after_help = examples::SHOW)]
    Show(FlowArgs),
    /// Cancel what has not begun, and ask what runs to stop; callbacks run as ever
    #[command(after_help = examples::CANCEL)]
    Cancel(FlowArgs),
    /// Send back what is dead or was cancelled, and let run what did not because of that
    #[command(after_help = examples::RETRY)]
    Retry(FlowArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FlowsListArgs {
    /// Only flows that this queue keeps
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<Name>,
    /// Flows that are over and still remembered, in place of those that are under way
    #[arg(long)]
    pub(crate) ended: bool,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) limit: u32,
    /// Begin after this one, as the page before says
    #[arg(long, value_name = "CURSOR", value_parser = FlowCursor::read)]
    pub(crate) after: Option<FlowCursor>,
}

/// A flow of a list, behind which the next page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlowCursor {
    pub(crate) id: JobId,
    pub(crate) queue: Name,
}

impl FlowCursor {
    /// Reads what a page has as `next`.
    fn read(text: &str) -> Result<Self, String> {
        let parts = text.split_once('@').and_then(|(id, queue)| {
            let (id, queue) = (id.parse().ok()?, Name::new(queue).ok()?);
            Some(Self { id, queue })
        });
        parts
            .ok_or_else(|| "not a place in a list of flows; use ID@QUEUE, as the page before says".to_owned())
    }
}

impl std::fmt::Display for FlowCursor {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{}@{}", self.id, self.queue)
    }
}

#[derive(Debug, Args)]
pub(crate) struct FlowArgs {
    /// The id of the flow, or of one of its jobs
    pub(crate) id: JobId,
    /// The queue that keeps the flow; without it all queues with flows are asked
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<Name>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_what_it_writes() {
        let cursor = FlowCursor { id: JobId::new(), queue: Name::new("mail.high").unwrap() };
        assert_eq!(FlowCursor::read(&cursor.to_string()), Ok(cursor));
        for bad in ["", "@", "mail", "01890a5d-ac96-774b-bcce-b302099a8057", "12@mail"] {
            assert!(FlowCursor::read(bad).unwrap_err().contains("ID@QUEUE"), "{bad:?} was accepted");
        }
    }
}
