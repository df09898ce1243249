//! What becomes of gates that are not as they should be. Each damage is done by hand, since no call does any.

use super::*;

impl Scene {
    fn damage(&self, sql: &str) {
        assert!(self.connection.execute(sql, []).unwrap() > 0, "{sql} changes something");
    }

    /// How many gates the sweep mends.
    async fn swept(&self) -> u32 {
        let mended = self.store.tidy(100).await.unwrap();
        assert_eq!(self.store.tidy(100).await.unwrap(), 0, "once is enough");
        mended
    }
}

fn ids(jobs: &[NewJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

#[tokio::test]
async fn a_gate_that_is_missing_is_made_again() {
    let scene = Scene::new(KeyRules::default()).await;
    let jobs = scene.add(&["a", "b", "c"]).await;
    assert_eq!(scene.swept().await, 0);
    scene.damage("DELETE FROM windlass_gates WHERE key <> 'b'");
    assert_eq!(scene.swept().await, 2);
    let mut found: Vec<_> = scene.ask(9).await.0.iter().map(|job| job.id).collect();
    found.sort();
    let mut expected = ids(&jobs);
    expected.sort();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_gate_that_waits_for_an_end_that_was_is_opened() {
    let scene = Scene::new(at_most(1)).await;
    let jobs = scene.add(&["a", "a", "b", "b"]).await;
    assert_eq!(scene.ask(9).await.0.len(), 2);
    assert_eq!(scene.swept().await, 0, "both are full");
    scene.damage("UPDATE windlass_jobs SET state = 4, finished_at = 1 WHERE state = 3 AND key = 'a'");
    assert_eq!(scene.swept().await, 1);
    assert_eq!(scene.ask(9).await.0.iter().map(|job| job.id).collect::<Vec<_>>(), [jobs[1].id]);
}

#[tokio::test]
async fn a_gate_that_is_closed_for_no_reason_is_opened() {
    let rate = Rate::new(1, Duration::from_secs(3_600));
    let scene = Scene::new(KeyRules { rate: Some(rate), ..KeyRules::default() }).await;
    scene.add(&["a", "a", "b", "b"]).await;
    assert_eq!(scene.ask(9).await.0.len(), 2);
    assert_eq!(scene.swept().await, 0, "neither has a permit");
    scene.damage("DELETE FROM windlass_key_spent WHERE key = 'b'");
    assert_eq!(scene.swept().await, 1);
    assert_eq!(scene.ask(9).await.0.len(), 1);

    let pauses = Pauses { keys: [(name("a"), Pause::default())].into(), ..Pauses::default() };
    let config = QueueConfig { keys: Some(KeyRules::default()), ..QueueConfig::default() };
    scene.define(QueueConfig { pauses, ..config }).await;
    assert_eq!(scene.ask(9).await.0.len(), 0);
    assert_eq!(scene.swept().await, 0, "a is paused");
    // No definition that there was closed it.
    scene.damage("UPDATE windlass_gates SET version = 99 WHERE key = 'a'");
    assert_eq!(scene.swept().await, 1);
    assert_eq!(scene.ask(9).await.0.len(), 0);
    assert_eq!(scene.count("windlass_gates WHERE open_at > 0 AND version < 99"), 1, "closed for its reason");
}

#[tokio::test]
async fn rounds_are_bounded_and_come_to_every_key() {
    let scene = Scene::new(KeyRules::default()).await;
    let keys: Vec<_> = (0..450).map(|number| format!("key-{number}")).collect();
    scene.add(&keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    scene.damage("DELETE FROM windlass_gates");
    let mut mended = Vec::new();
    for _ in 0..6 {
        mended.push(scene.store.tidy(150).await.unwrap());
    }
    assert_eq!(mended, [150, 150, 150, 0, 0, 0]);
    assert_eq!(scene.count("windlass_gates"), 450);
    // More than one round looks at.
    scene.damage("DELETE FROM windlass_gates WHERE key IN ('key-0', 'key-99')");
    let mut mended = 0;
    for _ in 0..4 {
        mended += scene.store.tidy(150).await.unwrap();
    }
    assert_eq!((mended, scene.count("windlass_gates")), (2, 450));
}

#[tokio::test]
async fn a_key_that_does_not_read_gets_no_gate() {
    let scene = Scene::new(KeyRules::default()).await;
    let jobs = scene.add(&["a", "b"]).await;
    scene.change(jobs[0].id, "key = '!a'");
    scene.damage("DELETE FROM windlass_gates");
    assert_eq!(scene.swept().await, 1);
    assert_eq!(scene.ask(9).await.0.len(), 1);
}

/// Its number begins anew, and so would that of the definition by which gates are closed.
#[tokio::test]
async fn a_definition_after_one_that_does_not_read_opens_its_gates() {
    for (text, config) in [
        ("{", QueueConfig { keys: Some(KeyRules::default()), ..QueueConfig::default() }),
        (r#"{"retention":7,"rules":2}"#, QueueConfig::default()),
        // The rule is lost with the text, but not the gates.
        ("{", QueueConfig::default()),
    ] {
        let scene = Scene::new(at_most(1)).await;
        for _ in 0..3 {
            let keys = Some(at_most(1));
            scene.define(QueueConfig { keys, ..QueueConfig::default() }).await;
        }
        let jobs = scene.add(&["a", "a"]).await;
        assert_eq!(scene.ask(9).await.0.len(), 1);
        let sql = "UPDATE windlass_queues SET config = ?1 WHERE name = 'default'";
        assert_eq!(scene.connection.execute(sql, [text]).unwrap(), 1);
        scene.define(config).await;
        let found: Vec<_> = scene.ask(9).await.0.iter().map(|job| job.id).collect();
        assert_eq!(found, [jobs[1].id], "{text}");
    }
}
