//! `top`: a live view of a store: what waits in its queues and how fast it moves, who works, what failed last, and whether all
//! is well.
//!
//! `look` reads the store, `view` holds what is shown and what keys do to it (no terminal, no store), `draw` draws it, and
//! `screen` is the terminal. Here they meet.

mod draw;
mod look;
mod screen;
mod verdict;
mod view;

use std::io::IsTerminal;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, sleep};
use windlass::Client;
use windlass::worker::Pausing;
use windlass_core::store::Amended;

use self::look::{Frame, Looker};
use self::screen::Screen;
use self::view::{Action, View, Wish};
use crate::args::TopArgs;
use crate::exit::{Exit, Fault};
use crate::interrupt::Interrupt;
use crate::session::{Access, Session};

/// The shortest interval: a look is a few calls for each queue.
const INTERVAL_MIN: Duration = Duration::from_millis(200);
const INTERVAL_MAX: Duration = Duration::from_secs(600);

/// How wide a frame is that is printed.
const ONCE_WIDTH: u16 = 120;

pub(crate) async fn run(session: &mut Session, args: &TopArgs) -> anyhow::Result<Exit> {
    if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&args.interval) {
        return Err(Fault::usage("--interval: use a time from 200ms to 10m").into());
    }
    if !args.once && !std::io::stdout().is_terminal() {
        return Err(
            Fault::usage("top draws on a terminal, and this is none: print one frame with --once").into()
        );
    }
    let client = session.open(Access::Existing).await?;
    let mut view = View::new(&client.about(), &args.filter);
    if args.once {
        return once(session, &client, view, args.interval).await;
    }
    let mut interrupt = Interrupt::listen()?;
    let mut screen = Screen::open()?;
    watch(&client, &mut view, &mut screen, &mut interrupt, args.interval).await?;
    Ok(Exit::Done)
}

/// Two looks, for what moves is seen between them only.
async fn once(
    session: &mut Session,
    client: &Client,
    mut view: View,
    pause: Duration,
) -> anyhow::Result<Exit> {
    let mut looker = Looker::new(client);
    looker.look(None).await?;
    sleep(pause).await;
    let frame = looker.look(None).await?;
    if session.output.is_json() {
        session.output.json(&frame)?;
    } else {
        view.saw(frame);
        for line in draw::text(&view, ONCE_WIDTH) {
            session.output.line(line)?;
        }
    }
    Ok(Exit::Done)
}

async fn watch(
    client: &Client,
    view: &mut View,
    screen: &mut Screen,
    interrupt: &mut Interrupt,
    every: Duration,
) -> anyhow::Result<()> {
    let mut looker = Looker::new(client);
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        screen.draw(|frame| draw::draw(view, frame))?;
        tokio::select! {
            biased;
            () = interrupt.heard() => return Ok(()),
            key = screen.key() => match key {
                None => return Ok(()),
                Some(key) => match view.key(key) {
                    Wish::None => {}
                    Wish::Quit => return Ok(()),
                    Wish::Look => ticks.reset_immediately(),
                    Wish::Act(action) => {
                        view.say(&act(client, &action).await);
                        ticks.reset_immediately();
                    }
                },
            },
            _ = ticks.tick() => {
                // A key must not wait for a store that is away; what it asks for then says so.
                let looked: Option<anyhow::Result<Frame>> = tokio::select! {
                    frame = looker.look(view.jobs_of()) => Some(frame),
                    () = screen.waits() => None,
                };
                match looked {
                    Some(Ok(frame)) => view.saw(frame),
                    Some(Err(error)) => view.failed(&format!("{error:#}")),
                    None => {}
                }
            }
        }
    }
}

/// Does what was asked for and says what came of it.
async fn act(client: &Client, action: &Action) -> String {
    let done: windlass::Result<String> = async {
        Ok(match action {
            Action::Pause(queue) => {
                client.queue(queue)?.pause(Pausing::new().by("windlass top")).await?;
                format!("{queue} is paused: jobs that run go on")
            }
            Action::Resume(queue) => match client.queue(queue)?.resume().await? {
                true => format!("{queue} is resumed"),
                false => format!("{queue} was not paused"),
            },
            Action::Retry(id) => said("retried", client.retry(*id).await?),
            Action::Cancel(id) => said("cancelled", client.cancel(*id).await?),
        })
    }
    .await;
    done.unwrap_or_else(|error| error.to_string())
}

fn said(what: &str, amended: Amended) -> String {
    match amended {
        Amended::Done(state) => format!("{what}: the job is {state} now"),
        Amended::Refused(state) => format!("not {what}: the job is {state}"),
        Amended::Held(holder) => format!("not {what}: job {holder} holds its unique key"),
        Amended::Missing => format!("not {what}: the job is gone"),
    }
}
