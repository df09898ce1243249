//! Graphs are read as they were written, and what starts follows from what has ended.

use super::*;
use crate::id::JobId;
use crate::name::Name;

fn graph(parents: &[&[(u32, OnFailure)]]) -> Graph {
    let name = |text: &str| Name::new(text).unwrap();
    let node = |edges: &&[(u32, OnFailure)]| Node {
        place: Place { id: JobId::new(), queue: name("q") },
        kind: name("k"),
        parents: edges.iter().map(|&(parent, on_failure)| Edge { parent, on_failure }).collect(),
        role: Role::Job,
    };
    let nodes = parents.iter().map(node).collect();
    Graph { name: "f".into(), nodes, alive_max: None, wakes: None }
}

fn callback(role: Role) -> Node {
    let name = Name::new("q").unwrap();
    let place = Place { id: JobId::new(), queue: name.clone() };
    Node { place, kind: name, parents: Vec::new(), role }
}

const FAIL: OnFailure = OnFailure::Fail;

#[test]
fn what_is_written_is_read_again() {
    let mut wide: Vec<Vec<(u32, OnFailure)>> = vec![Vec::new(); 50];
    wide.push((0..50).map(|parent| (parent, FAIL)).collect());
    wide.push(vec![(3, FAIL), (7, OnFailure::Run), (8, OnFailure::Run)]);
    let edges: Vec<&[(u32, OnFailure)]> = wide.iter().map(Vec::as_slice).collect();
    let mut graph = graph(&edges);
    graph.alive_max = Some(3);
    graph.nodes.push(callback(Role::OnEnd));
    graph.wakes = Some(Waiting { id: JobId::new(), fence: 3 });
    assert_eq!(Graph::read(&graph.text()), Ok(graph.clone()));
    let mut progress = Progress::new(&graph);
    progress.nodes[3] = Status::Skipped;
    assert_eq!(Progress::read(&progress.text(), &graph), Ok(progress));
    for text in ["", "{}", r#"{"v":2,"name":"f","names":[],"nodes":[]}"#] {
        assert!(matches!(Graph::read(text.as_bytes()), Err(FlowInvalid::Broken(_))), "{text}");
    }
}

#[test]
fn jobs_wait_only_for_earlier_ones() {
    let later = graph(&[&[(1, FAIL)], &[]]);
    assert_eq!(later.check(), Err(FlowInvalid::Parent { node: 0, parent: 1 }));
    assert_eq!(Graph::read(&later.text()), Err(FlowInvalid::Parent { node: 0, parent: 1 }));
    let own = graph(&[&[], &[(1, FAIL)]]);
    assert_eq!(own.check(), Err(FlowInvalid::Parent { node: 1, parent: 1 }));
}

#[test]
fn a_job_starts_when_all_that_it_waits_for_has_ended() {
    let graph = graph(&[&[], &[], &[(0, FAIL), (1, FAIL)]]);
    let mut progress = Progress::new(&graph);
    assert_eq!(graph.advance(&mut progress, &[], 9).release, [0, 1]);
    assert_eq!(graph.advance(&mut progress, &[(0, Status::Completed)], 9), Step::default());
    assert_eq!(graph.advance(&mut progress, &[(1, Status::Completed)], 9).release, [2]);
    assert_eq!(graph.advance(&mut progress, &[(1, Status::Completed)], 9), Step::default(), "once");
}

#[test]
fn a_failure_means_what_its_edge_says() {
    let after = |on_failure| {
        let graph = graph(&[&[], &[], &[(0, on_failure)], &[(2, FAIL)]]);
        let mut progress = Progress::new(&graph);
        graph.advance(&mut progress, &[], 9);
        let step = graph.advance(&mut progress, &[(0, Status::Dead)], 9);
        (step, progress)
    };
    let (step, progress) = after(FAIL);
    assert_eq!(
        (step.withdraw, progress.nodes[2], progress.nodes[3]),
        (vec![2, 3], Status::Failed, Status::Failed)
    );
    let (step, _) = after(OnFailure::Run);
    assert_eq!(step.release, [2]);
    let (step, _) = after(OnFailure::Skip);
    assert_eq!((step.withdraw, step.release), (vec![2], vec![3]), "what waits for a skipped job goes on");
    let (step, progress) = after(OnFailure::CancelRest);
    assert_eq!((step.withdraw, step.stop), (vec![2, 3], vec![1]));
    assert!(progress.is_cancelled);
}

#[test]
fn only_so_many_are_alive_and_a_step_is_bounded() {
    let mut graph = graph(&[&[], &[], &[], &[]]);
    let mut progress = Progress::new(&graph);
    let step = graph.advance(&mut progress, &[], 3);
    assert_eq!((step.release, step.has_more), (vec![0, 1, 2], true));
    graph.alive_max = Some(2);
    let mut progress = Progress::new(&graph);
    let step = graph.advance(&mut progress, &[], 9);
    assert_eq!((step.release, step.has_more), (vec![0, 1], false));
    assert_eq!(graph.advance(&mut progress, &[(1, Status::Dead)], 9).release, [2]);
}

#[test]
fn a_bound_above_the_step_has_more() {
    let mut graph = graph(&[&[][..]; 6]);
    graph.alive_max = Some(5);
    let mut progress = Progress::new(&graph);
    let step = graph.advance(&mut progress, &[], 3);
    assert_eq!((step.release.len(), step.has_more), (3, true));
    let step = graph.advance(&mut progress, &[], 3);
    assert_eq!((step.release.len(), step.has_more), (2, false), "the sixth waits for an end");
}

#[test]
fn the_order_of_ends_does_not_matter() {
    let policies = [FAIL, OnFailure::Run, OnFailure::Skip, OnFailure::CancelRest];
    for (first, second) in policies.iter().flat_map(|first| policies.map(|second| (*first, second))) {
        let graph = graph(&[&[], &[], &[(0, first), (1, second)]]);
        let end = |order: [u32; 2]| {
            let mut progress = Progress::new(&graph);
            graph.advance(&mut progress, &[], 9);
            for place in order {
                graph.advance(&mut progress, &[(place, Status::Dead)], 9);
            }
            progress
        };
        assert_eq!(end([0, 1]), end([1, 0]), "{first:?} {second:?}");
    }
}

#[test]
fn failed_parts_are_sent_back() {
    let graph = graph(&[&[], &[(0, FAIL)], &[(1, FAIL)]]);
    let mut progress = Progress::new(&graph);
    graph.advance(&mut progress, &[], 9);
    graph.advance(&mut progress, &[(0, Status::Dead)], 9);
    assert_eq!(progress.tally(&graph).failed, 2);
    assert_eq!(graph.send_back(&mut progress), [0]);
    assert_eq!(graph.advance(&mut progress, &[(0, Status::Completed)], 9).release, [1]);
}

#[test]
fn callbacks_start_once_or_never() {
    let run = |ends: &[Status]| {
        let mut graph = graph(&vec![&[][..]; ends.len()]);
        let roles = [Role::OnSuccess, Role::OnEnd, Role::OnFirstFailure];
        graph.nodes.extend(roles.map(callback));
        let mut progress = Progress::new(&graph);
        let mut started = graph.advance(&mut progress, &[], 9).release;
        for (place, end) in ends.iter().enumerate() {
            started.extend(graph.advance(&mut progress, &[(place as u32, *end)], 9).release);
        }
        started.retain(|place| *place as usize >= ends.len());
        for place in &started {
            graph.advance(&mut progress, &[(*place, Status::Completed)], 9);
        }
        assert!(progress.is_over());
        started.into_iter().map(|place| graph.nodes[place as usize].role).collect::<Vec<_>>()
    };
    assert_eq!(run(&[]), [Role::OnSuccess, Role::OnEnd], "also without any job");
    assert_eq!(run(&[Status::Completed, Status::Yielded]), [Role::OnSuccess, Role::OnEnd]);
    assert_eq!(run(&[Status::Dead, Status::Dead]), [Role::OnFirstFailure, Role::OnEnd]);
    assert_eq!(run(&[Status::Completed, Status::Cancelled]), [Role::OnEnd, Role::OnFirstFailure]);
}

#[test]
fn members_say_where_they_belong() {
    for is_read in [false, true] {
        let home = Name::new("a:b").unwrap();
        let member = Member { flow: JobId::new(), node: 7, home, is_read };
        assert_eq!(Member::read(&member.text()), Some(member.clone()));
    }
    assert_eq!(Member::read("nonsense"), None);
}

/// Every end in every order, on many graphs: a job starts once, after all that it waits for, and every flow ends.
#[test]
fn every_flow_ends_and_every_job_starts_once() {
    for seed in 0..2_000u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let count = random.usize(1..30);
        let policies = [FAIL, OnFailure::Run, OnFailure::Skip, OnFailure::CancelRest];
        let edges: Vec<Vec<(u32, OnFailure)>> = (0..count)
            .map(|place| {
                let mut parents: Vec<u32> = (0..random.usize(0..4))
                    .filter(|_| place > 0)
                    .map(|_| random.u32(0..place as u32))
                    .collect();
                parents.sort_unstable();
                parents.dedup();
                parents.into_iter().map(|parent| (parent, policies[random.usize(0..4)])).collect()
            })
            .collect();
        let edges: Vec<&[(u32, OnFailure)]> = edges.iter().map(Vec::as_slice).collect();
        let mut graph = graph(&edges);
        graph.alive_max = random.bool().then(|| random.u32(1..4));
        let (mut progress, mut running, mut started) = (Progress::new(&graph), Vec::new(), vec![0; count]);
        let mut ended = Vec::new();
        for _round in 0..10 * count {
            let step = graph.advance(&mut progress, &ended, random.usize(1..5));
            for &place in &step.release {
                started[place as usize] += 1;
                let parents = &graph.nodes[place as usize].parents;
                assert!(
                    parents.iter().all(|edge| progress.nodes[edge.parent as usize].has_ended()),
                    "seed {seed}"
                );
                running.push(place);
            }
            assert!(graph.alive_max.is_none_or(|alive| running.len() <= alive as usize), "seed {seed}");
            let ends = [Status::Completed, Status::Completed, Status::Dead, Status::Cancelled];
            ended = match running.is_empty() {
                true => Vec::new(),
                false => {
                    vec![(running.swap_remove(random.usize(0..running.len())), ends[random.usize(0..4)])]
                }
            };
        }
        assert_eq!(progress.tally(&graph).ended() as usize, count, "seed {seed}");
        assert!(started.iter().all(|&starts| starts <= 1), "seed {seed}");
    }
}
