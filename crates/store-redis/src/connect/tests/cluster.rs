//! Clusters: slots that move, nodes that die.

use windlass_store_testkit::servers::RedisCluster;

use super::*;

#[tokio::test]
async fn a_cluster_is_followed_wherever_its_slots_go() {
    let cluster = RedisCluster::start();
    let server = open(&cluster.url()).await;
    for number in 0..50 {
        run_at(&server, number, Effect::Write, &GROW, &["a", "b"]).await.unwrap();
    }
    let slot = slot_of(&key(0)[0]);
    assert_eq!(slot, cluster.slot_of("wl:{t:0}:x"));
    let from = cluster.primary_of(slot);
    let to = *cluster.primaries().iter().find(|&&place| place != from).unwrap();
    cluster.move_slot(slot, to, Duration::from_millis(1));
    assert_eq!(read(&server).await.unwrap(), Value::BulkString(b"b".to_vec()));
    // A URL that names one node and does not say that it is a Cluster will do as well.
    let node = cluster.nodes()[0].port();
    let server = open(&format!("redis://127.0.0.1:{node}")).await;
    for number in 0..50 {
        run_at(&server, number, Effect::Write, &GROW, &["a", "b"]).await.unwrap();
    }
    let error = refusal(&format!("redis://127.0.0.1:{node}/1")).await;
    assert_eq!(error.kind(), StoreErrorKind::Fatal, "{error}");
    let alone = RedisServer::start(&RedisSettings::default());
    let error = refusal(&format!("redis-cluster://127.0.0.1:{}", alone.port())).await;
    assert!(error.to_string().contains("not a node of a Cluster"), "{error}");
}

/// Half of the keys of a queue have gone: no node may run a script that looks at the others.
#[tokio::test]
async fn no_script_runs_while_its_slot_is_half_moved() {
    static LOOK: Script = Script::new(
        "tests/look",
        &["local prefix = string.sub(KEYS[1], 1, -5) \
         return {redis.call('EXISTS', prefix .. 'meta'), redis.call('EXISTS', prefix .. 'derived')}"],
    );
    let cluster = RedisCluster::start();
    let server = open(&cluster.url()).await;
    let keys = crate::keys::Keys::new(&server.connections().options.namespace);
    let queue = keys.queue(&windlass_core::Name::new("moving").unwrap());
    let (meta, slot) = (String::from_utf8(queue.meta().to_vec()).unwrap(), slot_of(&queue.meta()));
    let derived = meta.replace(":meta", ":derived");
    let (from, to) = {
        let from = cluster.primary_of(slot);
        (from, *cluster.primaries().iter().find(|&&place| place != from).unwrap())
    };
    let (source, target) = (&cluster.nodes()[from], &cluster.nodes()[to]);
    for key in [&meta, &derived] {
        source.command(&["SET", key, "1"]);
    }
    let bodies = meta.replace(":meta", ":bodies");
    source.command(&["HSET", &bodies, "first", "long"]);
    let look = |server: Server, keys: Vec<Bytes>| async move {
        let work = async move |_, session: Session| session.run(&LOOK, keys, Vec::new()).await;
        server.call(Call::READ, work).await
    };
    let transaction = |server: Server| {
        let (keys, field) = (queue.all(), fastrand::u64(..));
        let write = redis::cmd("HSETNX").arg(&bodies).arg(field).arg("long").to_owned();
        async move {
            let work = async move |_, session: Session| {
                session.run_acknowledged(&[write], &LOOK, keys, Vec::new()).await
            };
            server.call(Call::WRITE, work).await
        }
    };
    let both = Value::Array(vec![Value::Int(1), Value::Int(1)]);
    assert_eq!(look(server.clone(), queue.all()).await.unwrap(), both);
    let (slot_text, target_port) = (slot.to_string(), target.port().to_string());
    let (source_id, target_id) = (source.command(&["CLUSTER", "MYID"]), target.command(&["CLUSTER", "MYID"]));
    target.command(&["CLUSTER", "SETSLOT", &slot_text, "IMPORTING", source_id.trim()]);
    source.command(&["CLUSTER", "SETSLOT", &slot_text, "MIGRATING", target_id.trim()]);
    for key in [&derived, &meta] {
        source.command(&["MIGRATE", "127.0.0.1", &target_port, key, "0", "5000"]);
        if key == &derived {
            let error = look(server.clone(), vec![queue.meta()]).await.unwrap_err();
            assert!(error.to_string().contains("non local key"), "it stopped half-way: {error}");
        }
        let error = look(server.clone(), queue.all()).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        let error = transaction(server.clone()).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        // Its first command could be queued.
        assert_eq!(source.command(&["HLEN", &bodies]).trim(), "1", "it did not run");
    }
    source.command(&["MIGRATE", "127.0.0.1", &target_port, &bodies, "0", "5000"]);
    for place in cluster.primaries() {
        let node = &cluster.nodes()[place];
        node.command(&["CLUSTER", "SETSLOT", &slot_text, "NODE", target_id.trim()]);
    }
    assert_eq!(look(server.clone(), queue.all()).await.unwrap(), both);
    assert_eq!(transaction(server.clone()).await.unwrap(), both);
    assert_eq!(target.command(&["HLEN", &bodies]).trim(), "2");
}

#[tokio::test]
async fn a_cluster_goes_on_with_the_replica_of_a_killed_primary() {
    let cluster = RedisCluster::start();
    let server = open(&cluster.url()).await;
    grow(&server).await.unwrap();
    let slot = slot_of(&key(0)[0]);
    let killed = cluster.kill_primary_of(slot);
    let error = grow(&server).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    cluster.until_promoted(slot, killed);
    until_it_works(&server).await;
    grow(&server).await.unwrap();
}

#[tokio::test]
async fn a_node_that_hangs_does_not_hold_up_the_others() {
    let cluster = RedisCluster::start();
    let options = RedisOptions::parse(&cluster.url()).unwrap().timeout(Duration::from_secs(1)).unwrap();
    let server = open_with(&options.connect_timeout(Duration::from_millis(500)).unwrap()).await;
    let place_of = |number: u32| cluster.primary_of(slot_of(&key(number)[0]));
    let hung = place_of(0);
    let elsewhere = (1..).find(|&number| place_of(number) != hung).unwrap();
    for number in [0, elsewhere] {
        run_at(&server, number, Effect::Write, &GROW, &["a", "b"]).await.unwrap();
    }
    cluster.nodes()[hung].pause();
    let mut answered = 0;
    for _ in 0..5 {
        let mut stuck = std::pin::pin!(grow(&server));
        let mut is_stuck = true;
        while is_stuck {
            let others = run_at(&server, elsewhere, Effect::Read, &READ, &["a"]);
            tokio::select! {
                biased;
                answer = others => match answer {
                    Ok(_) => answered += 1,
                    // When the Cluster itself notices, all of its nodes say for a moment that it is down.
                    Err(error) => assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}"),
                },
                _ = &mut stuck => is_stuck = false,
            }
        }
    }
    // Those who waited for the hung one would get one or two answers in each of the five rounds.
    assert!(answered > 50, "{answered} answers of the others");
    cluster.nodes()[hung].resume();
}
