//! Transfers count once, whoever delivers them and however often, and in the order in which they were posted.

use std::sync::Arc;

use windlass_core::queue::Removed;
use windlass_core::store::{Enqueued, Filter, Inspect, Jobs, Maintenance, Queues, StoreResult};
use windlass_core::{JobId, NewJob, Options, State};
use windlass_store_testkit::servers::RedisServer;

use super::*;
use crate::connect::Call;
use crate::jobs::packed::Packed;
use crate::{RedisOptions, RedisStore};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn job(queue: &str) -> NewJob {
    NewJob::new("k", "payload", Options::new().queue(queue)).unwrap()
}

fn transfer(target: &str, jobs: &[NewJob]) -> Transfer {
    let places: Vec<_> = (0..jobs.len()).collect();
    Transfer::enqueue(&name(target), Packed::of(jobs.iter(), 1 << 20).unwrap(), &places)
}

/// Two clients of one namespace that nobody else uses.
async fn clients() -> (RedisStore, RedisStore, String) {
    let namespace = format!("transfers-{:x}", fastrand::u64(..));
    let open = async || {
        let options = RedisOptions::parse(RedisServer::shared().url()).unwrap();
        RedisStore::open_with(options.namespace(&namespace).unwrap()).await.unwrap()
    };
    (open().await, open().await, namespace)
}

/// Posts transfers from queue `a` and goes no further, as a client that dies does.
async fn post_only(store: &RedisStore, transfers: Vec<Transfer>) -> Vec<Posted> {
    let posted = store.remote.call(Call::WRITE, async move |tools, session| {
        let targets: Vec<_> =
            transfers.iter().map(|transfer| transfer.target.clone()).chain([name("a")]).collect();
        tools.registry.enter(&session, &tools.keys, &targets).await?;
        post(&tools, &session, &name("a"), &Bytes::new(), transfers).await
    });
    posted.await.unwrap().expect("no call was named").0
}

async fn deliver_all(store: &RedisStore) -> StoreResult<u32> {
    store.remote.call(Call::WRITE, async |tools, session| deliver(&tools, &session, &name("a")).await).await
}

/// Applies transfers as a client does that has read them before others delivered them.
async fn deliver_again(store: &RedisStore, transfers: Vec<Posted>) {
    let again = store.remote.call(Call::WRITE, async move |tools, session| {
        let source = name("a");
        Ok(Delivery::new(&tools, &session, &source).own(transfers).await.said)
    });
    assert_eq!(again.await.unwrap(), [], "nothing is applied twice");
}

/// The jobs of a queue, the first accepted first.
async fn listed(store: &RedisStore, queue: &str) -> Vec<JobId> {
    let filter = Filter { queue: Some(name(queue)), ..Filter::default() };
    let page = store.list(&filter, None, 1_000).await.unwrap();
    page.jobs.iter().rev().map(|job| job.id).collect()
}

fn ids(jobs: &[NewJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

#[tokio::test]
async fn what_a_client_left_behind_is_delivered_by_maintenance_of_another() {
    let (dying, other, _) = clients().await;
    let (first, second) = ([job("b"), job("b")], [job("c")]);
    post_only(&dying, vec![transfer("b", &first), transfer("c", &second)]).await;
    drop(dying);
    assert_eq!(listed(&other, "b").await, []);
    other.promote(100).await.unwrap();
    assert_eq!(other.tidy(100).await.unwrap(), 1);
    assert_eq!((listed(&other, "b").await, listed(&other, "c").await), (ids(&first), ids(&second)));
    assert_eq!(deliver_all(&other).await.unwrap(), 0, "the stream is empty");
}

#[tokio::test]
async fn a_transfer_that_says_much_is_delivered_from_beside_the_stream() {
    let (dying, other, namespace) = clients().await;
    let long = || NewJob::new("k", vec![7; 300_000], Options::new().queue("b")).unwrap();
    let (first, second) = ([long(), job("b")], [long()]);
    let posted = post_only(&dying, vec![transfer("b", &first), transfer("b", &second)]).await;
    let kept = async || {
        let command = redis::cmd("HLEN").arg(format!("wl:{{{namespace}:a}}:contents")).to_owned();
        let kept = other.remote.call(Call::WRITE, async move |_, session| session.command(command).await);
        kept.await.unwrap()
    };
    assert_eq!(kept().await, Value::Int(2));
    // What does not read holds up its own target only.
    let contents = format!("wl:{{{namespace}:a}}:contents");
    let rename = async |from: &str, to: &str| {
        let command = redis::cmd("RENAME").arg(from).arg(to).to_owned();
        let renamed = other.remote.call(Call::WRITE, async move |_, session| session.command(command).await);
        renamed.await.unwrap()
    };
    let (aside, wrong) = (format!("{contents}:aside"), format!("{contents}:wrong"));
    rename(&contents, &aside).await;
    let set = redis::cmd("SET").arg(&contents).arg("in the way").to_owned();
    other.remote.call(Call::WRITE, async move |_, session| session.command(set).await).await.unwrap();
    let short = [job("c")];
    post_only(&dying, vec![transfer("c", &short)]).await;
    assert_eq!(deliver_all(&other).await.unwrap(), 1);
    assert_eq!(listed(&other, "c").await, ids(&short));
    rename(&contents, &wrong).await;
    rename(&aside, &contents).await;
    assert_eq!(deliver_all(&other).await.unwrap(), 2);
    assert_eq!(kept().await, Value::Int(0));
    assert_eq!(listed(&other, "b").await, [ids(&first), ids(&second)].concat());
    deliver_again(&dying, posted).await;
    assert_eq!(kept().await, Value::Int(0));
}

#[tokio::test]
async fn a_transfer_counts_once_even_if_its_jobs_are_gone() {
    let (one, two, _) = clients().await;
    let jobs = [job("b"), job("b")];
    let posted = post_only(&one, vec![transfer("b", &jobs)]).await;
    assert_eq!(deliver_all(&two).await.unwrap(), 1);
    deliver_again(&one, posted.clone()).await;
    assert_eq!(listed(&one, "b").await, ids(&jobs));
    one.delete(ids(&jobs).into()).await.unwrap();
    deliver_again(&two, posted).await;
    assert_eq!(listed(&one, "b").await, []);
    let counts = one.queues(None, 9).await.unwrap();
    assert!(counts.iter().all(|queue| queue.counts.total() == 0), "{counts:?}");
}

/// What became of a job with a unique key its target tells, whichever program has delivered it.
#[tokio::test]
async fn a_sender_hears_of_holders_though_others_have_delivered() {
    let (dying, other, namespace) = clients().await;
    let unique = |queue: &str| {
        let options = Options::new().queue(queue).unique(windlass_core::unique::Unique::key("k"));
        NewJob::new("k", "payload", options).unwrap()
    };
    let held = [unique("a"), unique("b")];
    other.enqueue(held.clone().into()).await.unwrap();
    let (call, batch) = (windlass_core::CallId::new(), [unique("a"), unique("b")]);
    let transfers = || vec![transfer("a", &batch[..1]), transfer("b", &batch[1..])];
    let posted = dying.remote.call(Call::WRITE, {
        let (call, transfers) = (crate::jobs::enqueue::pack_call(call), transfers());
        async move |tools, session| {
            let posted = post(&tools, &session, &name("a"), &call, transfers).await?;
            // Its answer is lost, and others deliver.
            Ok(posted.expect("the call is new").0)
        }
    });
    let posted = posted.await.unwrap();
    assert!(
        posted.iter().all(|posted| posted.transfer.encode()[5 + 4] == 2),
        "older programs leave it alone"
    );
    assert_eq!(deliver_all(&other).await.unwrap(), 2);
    let number = posted[1].number;
    let said = dying.remote.call(Call::READ, async move |tools, session| {
        said_of(&tools, &session, &name("a"), &name("b"), number).await
    });
    let said = said.await.unwrap().expect("it is kept for a while");
    assert_eq!((said[0], &said[1..17], said[17]), (b'd', &held[1].id.as_bytes()[..], b'2'));
    // The call has stored nothing, and is tested anew.
    let met = held.each_ref().map(|held| Enqueued::Duplicate { id: held.id, state: Some(State::Ready) });
    assert_eq!(dying.enqueue_once(call, batch.clone().into()).await.unwrap(), met, "{namespace}");
    dying.delete([held[0].id].into()).await.unwrap();
    assert_eq!(dying.enqueue_once(call, batch.clone().into()).await.unwrap(), [Enqueued::New, met[1]]);
    assert_eq!(other.enqueue_once(call, batch.into()).await.unwrap(), [Enqueued::Repeated; 2]);
}

#[tokio::test]
async fn a_transfer_stays_until_the_replicas_of_its_target_have_it() {
    let (one, _, namespace) = clients().await;
    let jobs = [job("b")];
    post_only(&one, vec![transfer("b", &jobs)]).await;
    let options = RedisOptions::parse(RedisServer::shared().url()).unwrap().namespace(&namespace).unwrap();
    let brief = std::time::Duration::from_millis(100);
    let careful = options.wait(99).unwrap().wait_timeout(brief).unwrap();
    let careful = RedisStore::open_with(careful).await.unwrap();
    assert!(deliver_all(&careful).await.is_err(), "no server of a test has so many");
    assert_eq!(deliver_all(&one).await.unwrap(), 1, "it is still there, and known to its target");
    assert_eq!((listed(&one, "b").await, deliver_all(&one).await.unwrap()), (ids(&jobs), 0));
}

#[tokio::test]
async fn long_batches_keep_one_order_over_all_queues() {
    let (one, _, _) = clients().await;
    let batch: Vec<_> = (0..5_000).map(|place| job(["b", "a"][place % 2])).collect();
    one.enqueue(batch.as_slice().into()).await.unwrap();
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = one.list(&Filter::default(), after.as_ref(), 1_000).await.unwrap();
        found.extend(page.jobs.iter().map(|job| job.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    found.reverse();
    assert!(found == ids(&batch), "jobs of several transfers stand as they were handed in");
}

#[tokio::test]
async fn several_may_deliver_at_once() {
    let (one, two, _) = clients().await;
    let jobs: Vec<Vec<NewJob>> = (0..40).map(|_| (0..5).map(|_| job("b")).collect()).collect();
    for jobs in jobs.chunks(8) {
        post_only(&one, jobs.iter().map(|jobs| transfer("b", jobs)).collect()).await;
    }
    let (one, two) = (Arc::new(one), Arc::new(two));
    let deliveries = [&one, &two, &one, &two].map(|store| {
        let store = Arc::clone(store);
        tokio::spawn(async move { deliver_all(&store).await.unwrap() })
    });
    for delivery in deliveries {
        delivery.await.unwrap();
    }
    let expected: Vec<_> = jobs.iter().flatten().map(|job| job.id).collect();
    assert_eq!(listed(&one, "b").await, expected, "each once, in the order in which they were posted");
    assert_eq!(deliver_all(&one).await.unwrap(), 0);
}

#[tokio::test]
async fn a_target_that_is_away_holds_up_only_its_own() {
    let (one, two, namespace) = clients().await;
    let (first, other, last) = ([job("b")], [job("c")], [job("b")]);
    // Another kind of content makes every script of the queue fail.
    let key = format!("wl:{{{namespace}:b}}:meta");
    let command = |words: &[&str]| {
        let mut command = redis::cmd(words[0]);
        words[1..].iter().for_each(|word| {
            command.arg(*word);
        });
        two.remote.call(Call::WRITE, async move |_, session| session.command(command).await)
    };
    post_only(&one, vec![transfer("b", &first), transfer("c", &other), transfer("b", &last)]).await;
    command(&["SET", &key, "in the way"]).await.unwrap();
    assert_eq!(deliver_all(&two).await.unwrap(), 1);
    assert_eq!(listed(&two, "c").await, ids(&other));
    assert!(deliver_all(&one).await.is_err(), "what is left cannot be delivered");
    command(&["DEL", &key]).await.unwrap();
    assert_eq!(deliver_all(&one).await.unwrap(), 2);
    assert_eq!(listed(&two, "b").await, [ids(&first), ids(&last)].concat());
}

#[tokio::test]
async fn who_comes_later_delivers_what_waits_before() {
    let (dying, other, _) = clients().await;
    let early = [job("b")];
    post_only(&dying, vec![transfer("b", &early)]).await;
    // Its first queue is `a`, so these transfers stand behind the one above.
    let batch = [job("a"), job("b"), job("c")];
    assert_eq!(other.enqueue(batch.clone().into()).await.unwrap(), [Enqueued::New; 3]);
    assert_eq!(listed(&other, "b").await, [early[0].id, batch[1].id]);
    assert_eq!(listed(&other, "a").await, [batch[0].id]);
}

#[tokio::test]
async fn a_batch_of_several_queues_is_all_or_nothing() {
    let (one, two, _) = clients().await;
    let taken = job("b");
    one.enqueue([taken.clone()].into()).await.unwrap();
    let other = NewJob::new("other", "", Options::new().queue("b")).unwrap().with_id(taken.id);
    assert!(one.enqueue([job("a"), other, job("c")].into()).await.is_err());
    assert_eq!((listed(&one, "a").await.len(), listed(&one, "c").await.len()), (0, 0));
    let batch: Vec<_> =
        (0..2_400).map(|place| job(["a", "b", "c"][place % 3])).chain([taken.clone()]).collect();
    let answers = two.enqueue(batch.as_slice().into()).await.unwrap();
    assert_eq!(answers.iter().filter(|answer| **answer == Enqueued::New).count(), 2_400);
    assert_eq!(answers.last(), Some(&Enqueued::Existing(windlass_core::State::Ready)));
    let again = one.enqueue(batch.as_slice().into()).await.unwrap();
    assert!(again.iter().all(|answer| matches!(answer, Enqueued::Existing(_))));
    assert_eq!(listed(&one, "b").await.len(), 801);
    let page = one.list(&Filter::default(), None, 1_000).await.unwrap();
    let newest: Vec<_> = batch[..2_400].iter().rev().take(1_000).map(|job| job.id).collect();
    assert_eq!(page.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), newest, "one order over all queues");
}

#[tokio::test]
async fn a_queue_is_removed_when_its_transfers_are_delivered_and_numbers_go_on() {
    let (dying, other, _) = clients().await;
    let (first, second) = ([job("b")], [job("b")]);
    let posted = post_only(&dying, vec![transfer("b", &first)]).await;
    assert_eq!(other.remove(&name("a")).await.unwrap(), Removed::Missing);
    assert_eq!(listed(&other, "b").await, ids(&first), "what waited was delivered");
    other.delete(ids(&first).into()).await.unwrap();
    assert_eq!(other.remove(&name("b")).await.unwrap(), Removed::Missing);
    deliver_again(&dying, posted).await;
    assert_eq!(listed(&other, "b").await, []);
    // Both have entered the queues before, and know nothing of the removal.
    post_only(&dying, vec![transfer("b", &second)]).await;
    let moved = other.promote(10).await.unwrap();
    assert_eq!(moved.promoted, 0);
    assert_eq!(other.tidy(10).await.unwrap(), 1, "the sender is listed again");
    assert_eq!(listed(&other, "b").await, ids(&second));
}
