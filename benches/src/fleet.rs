//! What a fleet costs: workers × queues × kinds × rate, per job and per idle second, and how soon a job starts in another
//! process. `cargo xtask bench --fleet` runs it. Each figure stands beside the bound that is wanted.
//!
//! Where a process is meant this program starts itself ([`member`]). Servers count: PostgreSQL its functions and
//! transactions, Redis its commands ([`counters`]).

mod counters;
mod ground;
mod latency;
pub(crate) mod member;
mod processes;
mod scale;
mod spread;
mod table;
mod upkeep;

use std::time::Duration;

use anyhow::Result;

use ground::{Ground, Kind};
use table::Table;

/// How long and how much.
#[derive(Debug, Clone, Copy)]
struct Extent {
    /// How long something is counted.
    window: Duration,
    /// How many starts at one rate are timed at most, and for how long.
    starts_max: u32,
    starts_time: Duration,
    /// Jobs that are pruned.
    pruned: u32,
    /// Rounds of claims over kinds.
    rounds: u32,
}

impl Extent {
    fn of(is_quick: bool) -> Self {
        if is_quick {
            Self {
                window: Duration::from_secs(10),
                starts_max: 200,
                starts_time: Duration::from_secs(10),
                pruned: 120_000,
                rounds: 5,
            }
        } else {
            Self {
                window: Duration::from_secs(30),
                starts_max: 1_000,
                starts_time: Duration::from_secs(30),
                pruned: 400_000,
                rounds: 15,
            }
        }
    }
}

/// Measures every store whose name contains `only`, and every scene whose name does.
pub(crate) async fn run(is_quick: bool, is_json: bool, only: Option<&str>) -> Result<()> {
    let extent = Extent::of(is_quick);
    let (store, scene) = only.map_or(("", ""), |only| only.split_once('/').unwrap_or((only, "")));
    let mut table = Table::new(is_json);
    for kind in Kind::ALL.into_iter().filter(|kind| kind.name().contains(store)) {
        let ground = Ground::start(kind)?;
        let is_wanted = |name: &str| name.contains(scene);
        if is_wanted("latency") {
            latency::measure(&ground, extent, &mut table).await?;
        }
        if is_wanted("spread") {
            spread::measure(&ground, extent, &mut table).await?;
        }
        if kind == Kind::Sqlite {
            continue;
        }
        if is_wanted("idle") {
            scale::idle_workers(&ground, extent, &mut table).await?;
        }
        if is_wanted("waiters") {
            scale::waiters(&ground, extent, &mut table).await?;
        }
        if is_wanted("queues") {
            scale::queues(&ground, extent, &mut table).await?;
        }
        if is_wanted("kinds") {
            scale::kinds(&ground, extent, &mut table).await?;
        }
        if is_wanted("cancels") {
            upkeep::cancels(&ground, &mut table).await?;
        }
        if is_wanted("prune") {
            upkeep::prune(&ground, extent, &mut table).await?;
        }
    }
    table.print();
    Ok(())
}
