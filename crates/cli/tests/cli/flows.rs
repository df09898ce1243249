//! `flows list`, `show`, `cancel` and `retry`, on SQLite: flows are submitted and worked off with the library.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::flow::FlowDraft;
use windlass::{Client, Job, JobError, Options, Worker};
use windlass_core::State;

use crate::hostile::{HOSTILE, assert_harmless};
use crate::shell::Shell;

const MISSING: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// A job that does as it is told.
#[derive(Serialize, Deserialize)]
struct Part {
    fails: bool,
}

impl Job for Part {
    const KIND: &'static str = "part";
    type Output = ();
}

#[derive(Serialize, Deserialize)]
struct Sum;

impl Job for Sum {
    const KIND: &'static str = "sum";
    type Output = ();
}

fn parts(count: usize) -> impl Iterator<Item = Part> {
    std::iter::repeat_with(|| Part { fails: false }).take(count)
}

impl Shell {
    /// Does something with the store of this folder.
    fn with<T>(&self, act: impl AsyncFnOnce(Client) -> T) -> T {
        let url = format!("sqlite://{}", self.path("windlass.db").display());
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async { act(windlass::open(&url).await.unwrap()).await })
    }

    /// Submits a flow, and answers its id.
    fn flow(&self, name: &str, add: impl FnOnce(&mut FlowDraft)) -> String {
        self.with(async |client| {
            let mut flow = client.flow(name);
            add(&mut flow);
            let flow = flow.submit().await.unwrap();
            let first = flow.view().await.unwrap().nodes[0].id;
            // One over several queues, or a large one, begins after it was submitted.
            while client.store().states([first].into()).await.unwrap() != [Some(State::Ready)] {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            flow.id().to_string()
        })
    }

    /// Works off what can be; parts fail as they are told, unless they are mended.
    fn work(&self, mended: bool) {
        let part = move |job: Part| async move {
            match job.fails && !mended {
                true => Err(JobError::fail("as told")),
                false => Ok(()),
            }
        };
        self.with(async |client| {
            let worker = Worker::new(&client).queue("default", 4).queue("sums", 1).handle(part);
            worker.handle(async |_: Sum| Ok::<(), JobError>(())).drain().await.unwrap();
        });
    }

    fn shown(&self, id: &str) -> Value {
        self.run(["flows", "show", "--json", id]).ok().json()
    }
}

/// Parts, one of which fails, and a sum of them in another queue.
fn import(shell: &Shell) -> String {
    shell.flow("import", |flow| {
        let mut nodes = flow.add_all(parts(5));
        nodes.push(flow.add(Part { fails: true }));
        let sum = Sum.with(Options::new().queue("sums"));
        flow.add_after(&nodes, sum);
        flow.on_end(Part { fails: false });
    })
}

#[test]
fn a_flow_is_listed_shown_and_retried() {
    let shell = Shell::new();
    let id = import(&shell);
    let page = shell.run(["flows", "list", "--json"]).ok().json();
    let row = &page["flows"][0];
    assert_eq!((&row["id"], &row["name"], &row["queue"]), (&json!(id), &json!("import"), &json!("default")));
    assert_eq!((&row["state"], &row["jobs"], &row["ended"]), (&json!("running"), &json!(7), &json!(0)));
    assert_eq!(page["next"], Value::Null);
    shell.run(["flows", "list"]).ok().prints(&id).prints("0/7 0%").prints("running");
    shell.run(["flows", "show", &id]).ok().prints("0 of 7 ended: 6 open, 1 waiting").prints("6 × part open");

    shell.work(false);
    shell.run(["flows", "list"]).ok().complains("no flows under way");
    let over = shell.run(["flows", "list", "--ended"]).ok().prints("7/7 100%").prints("failed");
    assert!(over.stdout.contains(&id));
    let shown = shell.shown(&id);
    let statuses: Vec<_> = shown["nodes"].as_array().unwrap().iter().map(|node| &node["status"]).collect();
    assert_eq!(statuses[4..], ["completed", "dead", "failed", "completed"]);
    assert_eq!(shown["nodes"][6]["parents"], json!([0, 1, 2, 3, 4, 5]));
    assert_eq!((&shown["nodes"][7]["role"], &shown["nodes"][6]["queue"]), (&json!("on_end"), &json!("sums")));
    let dead = shown["nodes"][5]["id"].as_str().unwrap();
    let drawn = shell.run(["flows", "show", &id]).ok();
    for line in [
        "1 ├─ ✔ 5 × part completed\n",
        &format!("2 └─ ✘ part {dead} dead\n"),
        " failed in queue sums, after 1, 2\n",
        " completed, when all have ended\n",
    ] {
        assert!(drawn.stdout.contains(line), "no {line:?} in\n{}", drawn.stdout);
    }
    let of_job = shell.run(["flows", "show", dead]).ok().stdout;
    assert_eq!(of_job, drawn.stdout, "the id of one of its jobs will do");

    shell.run(["flows", "cancel", &id]).exits(1).complains("is left to cancel: failed");
    let retried = shell.run(["flows", "retry", &id]).ok();
    retried.prints("1 job sent back, and 1 job that did not run").prints("5 completed");
    shell.work(true);
    assert_eq!(shell.shown(&id)["state"], "succeeded");
    shell.run(["flows", "retry", &id, "--queue", "default"]).exits(1).complains("nothing to send back");
}

#[test]
fn a_flow_is_cancelled_with_what_has_not_begun() {
    let shell = Shell::new();
    let id = import(&shell);
    shell.attempt("part", None);
    let cancelled = shell.run(["flows", "cancel", &id, "--json"]).ok().json();
    assert_eq!((&cancelled["withdrawn"], &cancelled["stopping"]), (&json!(6), &json!(1)));
    assert_eq!((&cancelled["state"], &cancelled["cancelled"]), (&json!("cancelled"), &json!(6)));
    let text = shell.run(["flows", "retry", &id]).ok();
    text.prints("6 jobs sent back");
    shell.run(["flows", "cancel", &id]).ok().prints("6 jobs cancelled, 1 job asked to stop");
}

#[test]
fn what_is_not_there_is_said() {
    let shell = Shell::new();
    shell.run(["flows", "list"]).exits(3);
    let job = shell.enqueue(&["k"]);
    shell.run(["flows", "list"]).ok().complains("no flows under way");
    for verb in ["show", "cancel", "retry"] {
        for id in [MISSING, &job] {
            let ran = shell.run(["flows", verb, id]).exits(4);
            ran.complains(&format!("there is no flow {id}, and no job of a flow"));
        }
        shell.run(["flows", verb, MISSING, "--queue", "default"]).exits(4).complains("in queue default");
        shell.run(["flows", verb, "12"]).exits(2);
    }
    shell.run(["flows", "list", "--queue", "defualt"]).exits(2).complains("did you mean default?");
    shell.run(["flows", "list", "--after", "x"]).exits(2).complains("use ID@QUEUE");
}

#[test]
fn pages_go_over_all_queues() {
    let shell = Shell::new();
    let mut ids = Vec::new();
    for queue in ["a", "a", "b", "c"] {
        ids.push(shell.flow("small", |flow| {
            flow.home(queue).add(Sum.with(Options::new().queue(queue)));
        }));
    }
    let (mut seen, mut after): (Vec<String>, Option<String>) = (Vec::new(), None);
    for pages in 1.. {
        let begin = after.iter().flat_map(|after| ["--after", after]);
        let page =
            shell.run(["flows", "list", "--json", "--limit", "2"].into_iter().chain(begin)).ok().json();
        seen.extend(page["flows"].as_array().unwrap().iter().map(|flow| flow["id"].as_str().unwrap().into()));
        after = page["next"].as_str().map(str::to_owned);
        if after.is_none() {
            assert_eq!(pages, 2, "the last page says that it is");
            break;
        }
    }
    assert_eq!(seen, ids);
    let one = shell.run(["flows", "list", "--json", "--queue", "b"]).ok().json();
    assert_eq!(one["flows"].as_array().unwrap().len(), 1);
    shell.run(["flows", "list", "--limit", "1"]).ok().complains("repeat with --after");
}

#[test]
fn a_large_flow_is_drawn_within_bounds() {
    let shell = Shell::new();
    let wide = shell.flow("wide", |flow| {
        let first = flow.add_all(parts(300));
        let second: Vec<_> = first.iter().map(|node| flow.add_after(*node, Sum)).collect();
        flow.add_after(&second, Sum);
    });
    let drawn = shell.run(["flows", "show", &wide]).ok();
    drawn.prints("1 └─ ● 300 × part open\n2   └─ ○ 300 × sum waiting, after 1 (1 of 300)\n");
    let long = shell.flow("long", |flow| {
        flow.chain(parts(400));
    });
    let drawn = shell.run(["flows", "show", &long]).ok();
    assert!(drawn.stdout.lines().count() < 210, "{}", drawn.stdout);
    assert!(drawn.stdout.lines().all(|line| line.chars().count() < 120));
    drawn.prints("… 200 lines left out: 200 waiting; --json has every job");
    assert_eq!(shell.shown(&long)["nodes"].as_array().unwrap().len(), 400);
}

#[test]
fn a_job_names_its_flow_and_what_it_waits_for() {
    let shell = Shell::new();
    let id = import(&shell);
    let nodes = shell.shown(&id)["nodes"].clone();
    let (first, sum) = (nodes[0]["id"].as_str().unwrap(), nodes[6]["id"].as_str().unwrap());
    shell.run(["jobs", "show", first]).ok().prints(&format!("import ({id}) in queue default"));
    let held = shell.run(["jobs", "show", sum]).ok();
    held.prints(&format!(
        "it waits for 6 jobs of flow import ({id}) that have not ended: part {first} (ready)"
    ));
    let json = shell.show(sum)["flow"].clone();
    assert_eq!((&json["id"], &json["name"], &json["place"]), (&json!(id), &json!("import"), &json!(6)));
    assert_eq!((&json["blocked"]["by"], &json["blocked"]["jobs"][0]["id"]), (&json!("jobs"), &json!(first)));
    shell.run(["explain", sum]).ok().prints("blocked").prints(&format!("windlass explain {first}"));
    shell.run(["records", "remove", "default", &format!("flow/{id}")]).ok();
    shell.run(["jobs", "show", sum]).ok().prints("which is gone or does not read").prints("nothing sends it");
    shell.run(["flows", "show", sum]).exits(4).complains("no longer remembered");
}

#[test]
fn the_name_of_a_flow_cannot_command_the_terminal() {
    let shell = Shell::new();
    let name = HOSTILE.replace(char::is_control, "");
    let refused = shell.with(async |client| client.flow(HOSTILE).submit().await.is_err());
    assert!(refused, "control characters are not taken");
    let id = shell.flow(&name, |flow| {
        flow.add_all(parts(1));
    });
    let job = shell.shown(&id)["nodes"][0]["id"].as_str().unwrap().to_owned();
    for args in [
        vec!["flows", "list"],
        vec!["flows", "show", &id],
        vec!["jobs", "show", &job],
        vec!["flows", "cancel", &id],
    ] {
        for ran in [shell.run(args.clone()), shell.run(args.iter().chain(&["--json"]))] {
            assert_harmless(&ran.stdout);
            assert_harmless(&ran.stderr);
        }
    }
}
