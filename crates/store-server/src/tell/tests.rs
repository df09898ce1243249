//! Fleets in a room in memory: how many are woken for a job, and what becomes of it when the wrong ones are.

use std::sync::atomic::Ordering;

use tokio::time::{sleep, timeout};
use windlass_core::bell::Enrolled;

use super::*;
use crate::listen::LOOK_LATER;
use crate::room::{CountingWaiter, Member, Room, until};

/// Processes with one worker each, which listen.
struct Fleet {
    room: Arc<Room>,
    members: Vec<Member>,
    waiters: Vec<Arc<CountingWaiter>>,
    _enrolled: Vec<Enrolled>,
}

impl Fleet {
    async fn new(size: usize) -> Self {
        let (room, mut enrolled) = (Arc::new(Room::default()), Vec::new());
        let (mut members, mut waiters) = (Vec::new(), Vec::new());
        for _ in 0..size {
            let (member, waiter) = (Member::listening(&room), Arc::new(CountingWaiter::default()));
            waiter.room.store(64, Ordering::Relaxed);
            enrolled.push(member.bell().enroll(&[name("q")], &[name("k")], Arc::clone(&waiter) as _));
            room.served.lock().unwrap().push(format!("q|k|{:016x}", member.teller.owner()));
            members.push(member);
            waiters.push(waiter);
        }
        until(|| members.iter().all(|member| member.mode() == WakeMode::Listening)).await;
        let fleet = Self { room, members, waiters, _enrolled: enrolled };
        fleet.woken();
        fleet
    }

    /// How many were woken since the last time.
    fn woken(&self) -> u32 {
        self.waiters.iter().map(|waiter| waiter.woken.swap(0, Ordering::Relaxed)).sum()
    }

    /// A producer that is not among them hands jobs in, one after the other, and lets each pause follow.
    async fn hand_in(&self, producer: &Member, jobs: u32, pause: Duration) {
        for _ in 0..jobs {
            producer.ring(fresh(1));
            sleep(pause).await;
        }
    }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn fresh(jobs: u32) -> Rings {
    Rings::fresh(Fresh { queue: name("q"), kind: Some(name("k")), jobs })
}

#[tokio::test(start_paused = true)]
async fn a_job_wakes_about_one_worker_however_many_are_idle() {
    let mut by_size = Vec::new();
    for size in [10, 50, 200] {
        let fleet = Fleet::new(size).await;
        fleet.hand_in(&Member::new(&fleet.room), 100, Duration::from_millis(100)).await;
        let woken = f64::from(fleet.woken()) / 100.0;
        // One comes, one more in case it does not, and ten looks in ten seconds.
        assert!((2.0..2.2).contains(&woken), "{woken} of {size} are woken per job");
        let looked = fleet.room.looked.load(Ordering::Relaxed);
        assert!(looked <= 6, "{looked} looks at the leases in ten seconds");
        by_size.push(fleet.room.count(|word| matches!(word, Word::Work { .. })));
    }
    assert!(by_size.iter().all(|notes| *notes == 200), "{by_size:?}");
}

#[tokio::test(start_paused = true)]
async fn many_jobs_wake_many_workers() {
    let fleet = Fleet::new(20).await;
    let producer = Member::new(&fleet.room);
    producer.ring(fresh(9));
    sleep(Duration::from_millis(100)).await;
    assert_eq!(fleet.woken(), 10);
    producer.ring(fresh(1_000));
    sleep(Duration::from_millis(100)).await;
    assert_eq!(fleet.woken(), 20);
}

/// As a store does that sends notes right behind a write. Whether they went along.
async fn tell_along(member: &Member, rings: Rings) -> bool {
    if !member.teller.tells_along(rings) {
        return false;
    }
    member.teller.voice().say(|| member.teller.notes()).await.unwrap();
    member.teller.gone().await;
    true
}

#[tokio::test(start_paused = true)]
async fn notes_go_along_with_a_write_when_it_is_quiet_and_those_who_serve_are_known() {
    let fleet = Fleet::new(20).await;
    let producer = Member::new(&fleet.room);
    assert!(!tell_along(&producer, fresh(1)).await, "it does not know whom to tell");
    producer.ring(fresh(1));
    sleep(Duration::from_millis(1)).await;
    assert_eq!(fleet.woken(), 2);
    assert!(!tell_along(&producer, fresh(1)).await, "a note went out a moment ago");
    sleep(Duration::from_millis(100)).await;
    assert!(!tell_along(&producer, Rings::default()).await, "there is nothing to tell");
    assert!(tell_along(&producer, fresh(1)).await);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(fleet.woken(), 2, "as many as by a ring");
    assert!(!tell_along(&fleet.members[0], fresh(1)).await, "workers here come first");

    // What is rung while notes are on their way goes along with them, or with the next ones.
    sleep(Duration::from_secs(3)).await;
    fleet.woken();
    assert!(producer.teller.tells_along(fresh(1)));
    producer.ring(fresh(2));
    producer.teller.voice().say(|| producer.teller.notes()).await.unwrap();
    assert!(!producer.teller.tells_along(fresh(1)), "notes are on their way");
    producer.ring(fresh(1));
    sleep(Duration::from_millis(100)).await;
    producer.teller.gone().await;
    assert_eq!(fleet.woken(), 4 + 2);
}

#[tokio::test(start_paused = true)]
async fn a_job_of_a_process_with_room_is_its_own_and_one_other_looks_for_it_later() {
    let fleet = Fleet::new(20).await;
    fleet.members[0].ring(fresh(1));
    sleep(LOOK_LATER / 2).await;
    assert_eq!((fleet.waiters[0].woken.swap(0, Ordering::Relaxed), fleet.woken()), (1, 0));
    sleep(LOOK_LATER).await;
    assert_eq!(fleet.woken(), 1);
}

/// Half of the processes have died and are told of jobs in vain, as their leases have not run out.
#[tokio::test(start_paused = true)]
async fn where_the_chosen_are_dead_another_one_looks_within_a_second_or_two() {
    let fleet = Fleet::new(20).await;
    let mut lines = std::mem::take(&mut *fleet.room.lines.lock().unwrap());
    lines.truncate(10);
    *fleet.room.lines.lock().unwrap() = lines;
    let (producer, mut late) = (Member::new(&fleet.room), 0);
    for _ in 0..50 {
        let began = Instant::now();
        producer.ring(fresh(1));
        timeout(Duration::from_secs(60), async {
            while fleet.woken() == 0 {
                sleep(Duration::from_millis(10)).await;
                if began.elapsed() > LOOK_LATER * 2 {
                    break;
                }
            }
        })
        .await
        .unwrap();
        late += u32::from(began.elapsed() > LOOK_LATER * 2);
        sleep(LOOK_LATER).await;
    }
    // Both of those that were told, and the one that looks, are dead: one in eight. Polls find these.
    assert!(late <= 20, "{late} of 50 were not looked for");
}

#[tokio::test(start_paused = true)]
async fn a_note_to_a_busy_process_is_passed_on_until_one_has_room() {
    let fleet = Fleet::new(50).await;
    fleet.waiters[..45].iter().for_each(|waiter| waiter.room.store(0, Ordering::Relaxed));
    let (producer, mut found) = (Member::new(&fleet.room), 0);
    for _ in 0..50 {
        producer.ring(fresh(1));
        // Before anyone looks again.
        sleep(LOOK_LATER / 2).await;
        let idle =
            fleet.waiters[45..].iter().map(|waiter| waiter.woken.swap(0, Ordering::Relaxed)).sum::<u32>();
        found += u32::from(idle > 0);
        // Busy ones wait before they pass on again; the fleet has time here.
        sleep(Duration::from_secs(20)).await;
        fleet.woken();
    }
    assert!(found >= 35, "{found} of 50 found one of the five idle ones among fifty at once");
}

#[tokio::test(start_paused = true)]
async fn where_all_are_busy_hardly_a_note_is_passed_on() {
    let fleet = Fleet::new(50).await;
    fleet.waiters.iter().for_each(|waiter| waiter.room.store(0, Ordering::Relaxed));
    let producer = Member::new(&fleet.room);
    fleet.hand_in(&producer, 600, Duration::from_millis(100)).await;
    let passed = fleet.room.count(|word| matches!(word, Word::Work { hops: 1.., .. }));
    assert!(passed < 3_000, "{passed} notes were passed on in a minute by fifty processes");
}

#[tokio::test(start_paused = true)]
async fn few_processes_are_all_told_and_so_is_one_that_is_not_known_yet() {
    let fleet = Fleet::new(3).await;
    let producer = Member::new(&fleet.room);
    producer.ring(fresh(1));
    sleep(Duration::from_millis(10)).await;
    assert_eq!(fleet.woken(), 3);
    fleet.room.served.lock().unwrap().clear();
    sleep(PEERS_OLD * 2).await;
    producer.ring(fresh(1));
    sleep(Duration::from_millis(10)).await;
    assert_eq!(fleet.woken(), 3, "their leases are not known");
}

#[tokio::test(start_paused = true)]
async fn ends_are_told_to_those_who_wait_for_them_alone() {
    let fleet = Fleet::new(20).await;
    let ends = || Rings::about(Topic::Finish);
    let told = || fleet.room.count(|word| *word == Word::Finish);
    fleet.members[0].ring(ends());
    sleep(Duration::from_secs(10)).await;
    assert_eq!(told(), 1, "all are told by one that may not have heard of those who wait");
    fleet.members[0].ring(ends());
    sleep(Duration::from_secs(5)).await;
    assert_eq!(told(), 1, "no process waits");
    let mut finish = fleet.members[1].bell().listen(Topic::Finish);
    sleep(Duration::from_millis(100)).await;
    for _ in 0..3 {
        fleet.members[0].ring(ends());
        timeout(Duration::from_secs(1), finish.rung()).await.expect("it is told");
        // As long as it waits it says so.
        sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(told(), 4);
    drop(finish);
    sleep(Duration::from_secs(60)).await;
    fleet.members[0].ring(ends());
    sleep(Duration::from_secs(5)).await;
    assert_eq!(told(), 4, "it waits no more");
    // One that begins to wait a moment after the end hears of it.
    let mut late = fleet.members[2].bell().listen(Topic::Finish);
    assert!(timeout(Duration::from_secs(1), late.rung()).await.is_err(), "that was long ago");
    drop(late);
    sleep(Duration::from_secs(60)).await;
    fleet.members[0].ring(ends());
    let mut late = fleet.members[2].bell().listen(Topic::Finish);
    timeout(Duration::from_secs(1), late.rung()).await.expect("it is told of what has just ended");
}

#[tokio::test(start_paused = true)]
async fn notes_are_sent_at_once_while_it_is_quiet_and_rarely_in_a_flood() {
    let room = Arc::new(Room::default());
    let producer = Member::new(&room);
    let said = || room.said.lock().unwrap().len();
    for _ in 0..100 {
        let before = said();
        producer.ring(Rings::about(Topic::Work));
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        assert_eq!(said(), before + 1, "a hundred a second are sent at once");
        sleep(Duration::from_millis(10)).await;
    }
    let (before, began) = (said(), Instant::now());
    for _ in 0..10_000 {
        producer.ring(Rings::about(Topic::Work));
        sleep(Duration::from_millis(1)).await;
    }
    let (flood, most) = (said() - before, began.elapsed().as_millis() / 50 + 10);
    assert!(flood as u128 <= most, "{flood} notes about 10,000 rings, {most} are allowed");
}
