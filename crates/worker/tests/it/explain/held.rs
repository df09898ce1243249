//! Why a job waits for its flow: for other jobs, for room, or for a flow that is not there.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_core::follow_ups::FollowUps;
use windlass_core::options::Due;
use windlass_core::record::{RecordKey, RecordWrite};
use windlass_core::{JobId, NewJob, Options};
use windlass_store_memory::MemoryStore;
use windlass_worker::{Cause, Client, Ctx, FlowDraft, Job, JobError, Why, Worker};

use super::Scene;
use crate::flows::part;

/// What holds a job, by its first cause.
async fn held(scene: &Scene, id: JobId) -> (Cause, Value) {
    let cause = scene.causes(id).await.remove(0);
    assert_eq!(cause.why.name(), "blocked", "{cause:?}");
    assert!(cause.remedy.is_some(), "{cause:?}");
    let json = serde_json::to_value(&cause.why).unwrap();
    (cause, json)
}

#[tokio::test]
async fn a_held_job_names_its_flow_and_what_it_waits_for() {
    let scene = Scene::new();
    let mut flow = scene.client.flow("import");
    let first = flow.add(part("first"));
    let second = flow.add_after(first, part("second"));
    let many = flow.add_all((0..12).map(|n| part(n.to_string())));
    let both = flow.add_after(second, part("both"));
    let last = flow.add_after(&many, part("last"));
    let end = flow.on_end(part("end"));
    let flow = flow.submit().await.unwrap();

    let (cause, json) = held(&scene, second.id()).await;
    let (id, first) = (flow.id(), first.id());
    assert_eq!(
        cause.sentence,
        format!("it waits for 1 job of flow import ({id}) that has not ended: part {first} (ready)")
    );
    assert!(cause.remedy.unwrap().starts_with(&format!("windlass explain {first} says")));
    assert_eq!(json["flow"], json!({"id": id, "name": "import", "home": "default"}));
    assert_eq!((&json["by"], &json["more"]), (&json!("jobs"), &json!(0)));
    let awaited = json!({"id": first, "kind": "part", "status": "open", "state": "ready"});
    assert_eq!(json["jobs"], json!([awaited]));

    let (cause, json) = held(&scene, both.id()).await;
    assert_eq!(json["jobs"][0]["status"], "waiting");
    assert!(cause.sentence.ends_with(&format!("{} (waits itself)", second.id())), "{}", cause.sentence);
    let (cause, json) = held(&scene, last.id()).await;
    assert_eq!((json["jobs"].as_array().unwrap().len(), &json["more"]), (10, &json!(2)));
    assert!(cause.sentence.contains("it waits for 12 jobs of flow import"), "{}", cause.sentence);
    assert!(cause.sentence.ends_with(", 7 more"), "{}", cause.sentence);
    let (cause, json) = held(&scene, end).await;
    assert_eq!(
        (&json["by"], &json["role"], &json["left"]),
        (&json!("callback"), &json!("on_end"), &json!(16))
    );
    assert!(cause.sentence.ends_with("starts when every job has ended; 16 have not ended"), "{cause:?}");
}

#[tokio::test]
async fn a_held_job_says_that_its_flow_has_no_room_or_is_gone() {
    let scene = Scene::new();
    let mut flow = scene.client.flow("narrow");
    flow.at_most(1);
    let jobs = flow.add_all([part("first"), part("second")]);
    let flow = flow.submit().await.unwrap();
    let (cause, json) = held(&scene, jobs[1].id()).await;
    assert_eq!((&json["by"], &json["at_most"], &json["open"]), (&json!("room"), &json!(1), &json!(1)));
    assert!(cause.sentence.contains("and 1 may at once"), "{}", cause.sentence);

    let key = format!("flow/{}", flow.id());
    let records = scene.client.records("default").unwrap();
    let stored = records.list(&key, None, 1).await.unwrap().records.remove(0);
    let text = String::from_utf8(stored.value.to_vec()).unwrap();
    let write = async |text: String| {
        let records = vec![RecordWrite::put(RecordKey::new(&key).unwrap(), text)];
        let what = FollowUps { jobs: Vec::new(), records };
        scene.client.records("default").unwrap().write(what).await.unwrap();
        held(&scene, jobs[1].id()).await
    };
    let (cause, json) = write(text.replace("\"sealed\":true", "\"sealed\":false")).await;
    assert_eq!(json["by"], "unsealed");
    assert!(cause.remedy.unwrap().ends_with(&format!("windlass flows cancel {} --queue default", flow.id())));
    for (status, said) in [("oo", "it is sent within seconds"), ("xf", "has it as failed: it is cancelled")] {
        let (cause, json) = write(text.replace("\"ow\"", &format!("\"{status}\""))).await;
        assert_eq!(json["by"], "decided");
        assert!(cause.sentence.contains(said), "{}", cause.sentence);
    }
    let (_, json) = write("nonsense".into()).await;
    assert_eq!((&json["by"], &json["flow"]["name"]), (&json!("flow_unreadable"), &Value::Null));
    records.remove(&key).await.unwrap();
    let (cause, json) = held(&scene, jobs[1].id()).await;
    assert_eq!(json["by"], "flow_gone");
    assert!(cause.remedy.unwrap().contains(&format!("windlass jobs retry {}", jobs[1].id())));
}

#[tokio::test]
async fn a_held_job_of_no_flow_can_be_sent_by_hand() {
    let (scene, _) = Scene::served().await;
    let mut job = NewJob::new("k", "{}", Options::new()).unwrap();
    job.due = Due::Held;
    let id = job.id;
    scene.store.enqueue([job].into()).await.unwrap();
    let (cause, json) = held(&scene, id).await;
    assert_eq!((&json["by"], &json["flow"]), (&json!("nothing"), &Value::Null));
    assert!(cause.remedy.unwrap().contains(&format!("windlass jobs retry {id}")));
    scene.client.retry(id).await.unwrap();
    assert_eq!(scene.why(id).await, ["ready"]);
}

#[derive(Serialize, Deserialize)]
struct Gatherer;

impl Job for Gatherer {
    const KIND: &'static str = "gatherer";
    type Output = ();
}

async fn gatherer(_: Gatherer, ctx: Ctx) -> Result<(), JobError> {
    let parts = |flow: &mut FlowDraft| {
        flow.add_all(["a", "b"].map(|name| part(name).with(Options::new().queue("elsewhere"))));
    };
    ctx.gather("parts", parts).await.map(drop)
}

#[tokio::test]
async fn a_job_that_gathers_names_the_flow_that_it_waits_for() {
    let client = Client::new(Arc::new(MemoryStore::new()));
    let id = client.enqueue(Gatherer).await.unwrap().id();
    Worker::new(&client).queue("default", 1).handle(gatherer).drain().await.unwrap();
    let cause = client.explain(id).await.unwrap().unwrap().causes.remove(0);
    let Why::Gathers { flow, ended: 0, jobs: 2, .. } = &cause.why else { panic!("{cause:?}") };
    assert_eq!(flow.name.as_deref(), Some("parts"));
    assert!(cause.sentence.ends_with(": 0 of 2 have ended"), "{}", cause.sentence);
    assert!(cause.remedy.unwrap().contains(&format!("windlass flows show {} --queue default", flow.id)));
}
