//! The suite has teeth: it passes a store that keeps the contract, and notices each planted bug.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::Name;
use windlass_core::clock::ManualClock;
use windlass_core::store::SharedStore;
use windlass_store_memory::{Bug, MemoryStore};
use windlass_store_testkit::{Exception, Harness, Verdict, async_trait, clauses, model, run_all};

#[derive(Default)]
struct Planted {
    clock: ManualClock,
    bug: Option<Bug>,
    cannot: Vec<Exception>,
    made: Mutex<Vec<Arc<MemoryStore>>>,
}

#[async_trait]
impl Harness for Planted {
    async fn fresh(&self) -> SharedStore {
        let clock = Arc::new(self.clock.clone());
        let store = Arc::new(match self.bug {
            Some(bug) => MemoryStore::with_bug(clock, bug),
            None => MemoryStore::with_clock(clock),
        });
        self.made.lock().expect("no test panics with it").push(Arc::clone(&store));
        store
    }

    async fn another(&self, of: &SharedStore) -> Option<SharedStore> {
        Some(Arc::clone(of))
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn use_rule(&self, of: &SharedStore, queue: &Name, rule: u32) -> bool {
        let made = self.made.lock().expect("no test panics with it");
        let is_same = |store: &&Arc<MemoryStore>| std::ptr::addr_eq(Arc::as_ptr(store), Arc::as_ptr(of));
        made.iter().find(is_same).expect("it was made here").use_rule(queue, rule);
        true
    }

    fn cannot(&self) -> Vec<Exception> {
        self.cannot.clone()
    }
}

fn on_runtime<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a test may start threads")
        .block_on(test)
}

/// What notices each bug, every bug on a thread of its own: a lost ring is waited for in vain.
fn for_each_bug(notices: impl AsyncFn(&Planted) -> Vec<String> + Sync) -> Vec<(Bug, Vec<String>)> {
    std::thread::scope(|scope| {
        let notices = &notices;
        let run = |bug| {
            let harness = Planted { bug: Some(bug), ..Planted::default() };
            scope.spawn(move || (bug, on_runtime(notices(&harness))))
        };
        let runs: Vec<_> = Bug::ALL.into_iter().map(run).collect();
        runs.into_iter().map(|run| run.join().expect("bugs break clauses, not threads")).collect()
    })
}

#[test]
fn a_store_without_a_bug_keeps_every_clause() {
    let report = on_runtime(run_all(&Planted::default()));
    assert_eq!(report.broken().collect::<Vec<_>>(), []);
    assert_eq!(report.verdicts.len(), clauses::NAMES.len());
    assert!(report.verdicts.iter().all(|(_, verdict)| *verdict == Verdict::Kept));
}

#[test]
fn every_planted_bug_breaks_a_clause() {
    let noticed = for_each_bug(async |harness| {
        let report = run_all(harness).await;
        report.broken().map(|(clause, _)| clause.to_owned()).collect()
    });
    for (bug, clauses) in noticed {
        println!("{bug:?} breaks {}", clauses.join(", "));
        assert!(!clauses.is_empty(), "no clause notices {bug:?}");
    }
}

#[test]
fn the_model_test_notices_what_differs() {
    let noticed = for_each_bug(async |harness| {
        for seed in 0..200 {
            if let Some(difference) = model::find_difference(harness, seed, 160).await {
                return vec![difference.to_string()];
            }
        }
        Vec::new()
    });
    let (noticed, missed): (Vec<_>, Vec<_>) = noticed.into_iter().partition(|(_, seen)| !seen.is_empty());
    for (bug, seen) in &noticed {
        println!("{bug:?}: {}", seen[0]);
    }
    let missed: Vec<_> = missed.into_iter().map(|(bug, _)| bug).collect();
    // Rings and duties are not among what the model compares, nothing comes or goes while it reads its pages, and no
    // operation compares a definition, none names what it has seen, and none looks at permits, and none folds tallies. A run has few levels of priority.
    let blind = [
        Bug::LoseWakeup,
        Bug::LoseCancelRing,
        Bug::IgnoreSeen,
        Bug::SkipEndsOfOneInstant,
        Bug::PageByCount,
        Bug::ShareDuty,
        Bug::ShowUnspent,
        Bug::RedefineBlindly,
        Bug::SameLevels,
        Bug::LoseTallyAtFold,
    ];
    // They need what is rare in a run: a queue of ends only, a key that is asked for in the right moment, a full queue,
    // a job that is refused.
    let rare = [
        Bug::RemoveWithEnds,
        Bug::KeyGoneWithReap,
        Bug::WindowGoneWithJob,
        Bug::RefusedTakesKey,
        Bug::RetryTakesHeldKey,
        Bug::KeyHeldAtReap,
        Bug::FollowUpsNeedRoom,
        Bug::FollowCancelled,
        Bug::EndBeforeFollowUps,
    ];
    let missed: Vec<_> = missed.into_iter().filter(|bug| !rare.contains(bug)).collect();
    assert_eq!(missed, blind);
}

#[test]
fn the_model_test_agrees_with_the_reference() {
    on_runtime(model::check(&Planted::default(), 0..100, 200));
}

#[test]
fn a_clause_that_cannot_be_kept_is_reported_as_skipped() {
    let reason = "for the sake of this test";
    let cannot = vec![Exception { clause: "wakeup::work_rings", reason }];
    let harness = Planted { bug: Some(Bug::LoseWakeup), cannot, ..Planted::default() };
    let report = on_runtime(run_all(&harness));
    assert!(report.verdicts.contains(&("wakeup::work_rings", Verdict::Skipped(reason))));
    assert!(report.to_string().contains("SKIPPED  wakeup::work_rings: for the sake of this test"));
}

#[test]
fn the_list_holds_every_clause() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/clauses");
    let mut written = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let part = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let names = text.lines().filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next());
        written.extend(names.map(|name| format!("{part}::{name}")));
    }
    let mut listed: Vec<_> = clauses::NAMES.iter().map(ToString::to_string).collect();
    written.sort();
    listed.sort();
    assert_eq!(listed, written);
}
