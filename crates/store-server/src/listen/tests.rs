//! Against a room of listeners in memory, which hands notes on or not.

use std::sync::atomic::Ordering;

use tokio::time::timeout;

use super::*;
use crate::room::{Member, Room, said_by, until};

#[tokio::test(start_paused = true)]
async fn the_rings_of_others_are_heard_and_ones_own_are_not() {
    let room = Arc::new(Room::default());
    let member = Member::listening(&room);
    until(|| member.mode() == WakeMode::Listening).await;
    let mut work = member.bell().listen(Topic::Work);
    room.hand_on(To::Everyone, &said_by(member.teller.owner(), Topic::Work));
    assert!(timeout(Duration::from_secs(1), work.rung()).await.is_err(), "it was rung here already");
    room.hand_on(To::Everyone, &said_by(7, Topic::Work));
    work.rung().await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_is_made_again_soon() {
    let room = Arc::new(Room::default());
    let member = Member::listening(&room);
    until(|| member.mode() == WakeMode::Listening).await;
    room.lines.lock().unwrap().clear();
    let begun = Instant::now();
    until(|| room.opened.load(Ordering::Relaxed) == 2 && member.mode() == WakeMode::Listening).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_hears_nothing_says_so_and_tries_again_much_later() {
    let room = Arc::new(Room::default());
    room.is_deaf.store(true, Ordering::Relaxed);
    let member = Member::listening(&room);
    until(|| member.mode() == WakeMode::Polling).await;
    assert_eq!(room.parted.load(Ordering::Relaxed), 1);
    room.is_deaf.store(false, Ordering::Relaxed);
    let begun = Instant::now();
    until(|| member.mode() == WakeMode::Listening).await;
    assert!(begun.elapsed() >= DEAF_PAUSE - Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_grows_deaf_while_it_is_quiet_finds_out_and_hears_by_another_line() {
    let room = Arc::new(Room::default());
    let member = Member::listening(&room);
    until(|| member.mode() == WakeMode::Listening).await;
    // This line is forgotten, without being closed.
    let forgotten = std::mem::take(&mut *room.lines.lock().unwrap());
    let begun = Instant::now();
    until(|| room.opened.load(Ordering::Relaxed) == 2 && member.mode() == WakeMode::Listening).await;
    assert!(begun.elapsed() < <Arc<Room> as Ear>::QUIET * 2 + TEST_WAIT * 2, "{:?}", begun.elapsed());
    assert_eq!(room.parted.load(Ordering::Relaxed), 0, "it is not a pooler that hands nothing on");
    drop(forgotten);
}

#[tokio::test(start_paused = true)]
async fn a_word_that_cannot_be_sent_says_nothing_about_the_line() {
    let room = Arc::new(Room::default());
    let member = Member::listening(&room);
    until(|| member.mode() == WakeMode::Listening).await;
    room.is_mute.store(true, Ordering::Relaxed);
    sleep(<Arc<Room> as Ear>::QUIET * 10).await;
    assert_eq!((member.mode(), room.opened.load(Ordering::Relaxed)), (WakeMode::Listening, 1));
}

#[tokio::test(start_paused = true)]
async fn of_many_that_listen_few_test_for_all() {
    let room = Arc::new(Room::default());
    let all: Vec<_> = (0..50).map(|_| Member::listening(&room)).collect();
    until(|| all.iter().all(|member| member.mode() == WakeMode::Listening)).await;
    let tests = || room.count(|word| *word == Word::Test);
    let before = tests();
    sleep(<Arc<Room> as Ear>::QUIET * 20).await;
    let said = tests() - before;
    assert!((10..=100).contains(&said), "{said} tests in twenty times of quiet");
    assert!(all.iter().all(|member| member.mode() == WakeMode::Listening));
}
