//! What an operation sees of the servers: scripts and commands, each sent to where its first key is.
//!
//! Cheap to clone, and several requests may be under way at once (join them): over one connection they take effect in
//! the order in which they were first polled, each by itself. What a server says to be passing (it loads, a slot
//! moves, a script runs long) is tried again for a while; nothing that may have taken effect ever is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use redis::{Arg, Cmd, Value};
use tokio::time::{Instant, sleep};
use windlass_core::backoff::pause;

use crate::connect::{Endpoint, Purpose, Servers, redirection, slot_of};
use crate::error::{Fault, Remedy, is_brief, said, server_error};
use crate::options::Target;
use crate::script::Script;

/// How long a request is tried again, at most, unless its session is hasty.
const PATIENCE: Duration = Duration::from_secs(2);

/// Nothing is tried again so shortly before the deadline, so that the caller gets the server's error and not a timeout.
const LAST_WORD: Duration = Duration::from_millis(50);

/// The shortest and the longest pause between two tries.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(320));

/// How often a request may be sent elsewhere.
const HOPS_MAX: u32 = 8;

/// The servers, for one operation.
#[derive(Clone)]
pub(crate) struct Session {
    servers: Arc<Servers>,
    purpose: Purpose,
    /// When the caller gives up.
    deadline: Instant,
    /// How long a request is tried again that a server will take later.
    patience: Duration,
    has_sent: Arc<AtomicBool>,
}

impl windlass_store_server::remote::Session for Session {
    fn has_sent(&self) -> bool {
        self.has_sent.load(Ordering::Relaxed)
    }
}

impl Session {
    pub(crate) fn new(servers: Arc<Servers>, purpose: Purpose, deadline: Duration) -> Self {
        let deadline = Instant::now() + deadline;
        Self { servers, purpose, deadline, patience: PATIENCE, has_sent: Arc::default() }
    }

    /// The same for those who ask many queues: in a Cluster, one that cannot be asked at present is not waited for. A server
    /// by itself has all of them, and is.
    pub(crate) fn hasty(&self) -> Self {
        let patience = if self.is_cluster() { Duration::ZERO } else { self.patience };
        Self { patience, ..self.clone() }
    }

    /// The same for what goes beside the caller's request: whether that was sent does not hang on it.
    pub(crate) fn apart(&self) -> Self {
        Self { has_sent: Arc::default(), ..self.hasty() }
    }

    /// How long the caller still waits.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Whether queues may be on different servers.
    pub(crate) fn is_cluster(&self) -> bool {
        self.servers.router.is_cluster()
    }

    /// What is known of the servers, and how to reach each.
    pub(crate) fn servers(&self) -> &Arc<Servers> {
        &self.servers
    }

    /// Runs a script where its first key is. A server that does not know it yet gets its text.
    pub(crate) async fn run(
        &self,
        script: &'static Script,
        keys: Vec<Bytes>,
        args: Vec<Bytes>,
    ) -> Result<Value, Fault> {
        let slot = keys.first().map(|key| slot_of(key));
        let request = Request { purpose: self.purpose, slot, before: &[], replicas: None };
        self.evaluate(&request, script, &keys, &args).await.map(|(answer, _)| answer)
    }

    /// As [`run`](Self::run), and waits for the replicas that the options ask for. With fewer the write is unknown: it
    /// is there, and may be lost.
    ///
    /// Commands about the same queue may go before, in one transaction with the script: they write what is too long to
    /// pass through it. If the script refuses, it removes what they wrote.
    pub(crate) async fn run_acknowledged(
        &self,
        before: &[Cmd],
        script: &'static Script,
        keys: Vec<Bytes>,
        args: Vec<Bytes>,
    ) -> Result<Value, Fault> {
        let options = &self.servers.options;
        let slot = keys.first().map(|key| slot_of(key));
        if options.replicas == 0 {
            let request = Request { purpose: self.purpose, slot, before, replicas: None };
            return self.evaluate(&request, script, &keys, &args).await.map(|(answer, _)| answer);
        }
        // What the replicas say must come before the caller gives up.
        let left = self.deadline.saturating_duration_since(Instant::now() + LAST_WORD);
        let patience = options.wait_timeout.min(left).max(Duration::from_millis(1));
        let replicas = Some((options.replicas, patience));
        let request = Request { purpose: Purpose::Replicas, slot, before, replicas };
        let (answer, reached) = self.evaluate(&request, script, &keys, &args).await?;
        match reached {
            Some(Value::Int(reached)) if reached >= i64::from(options.replicas) => Ok(answer),
            Some(Value::ServerError(error)) => Err(Fault::from(server_error(&error)).partial()),
            reached => {
                let reached = if let Some(Value::Int(reached)) = reached { reached } else { 0 };
                Err(Fault::Lost(format!(
                    "a failover may lose the write: {reached} of {} replicas have it after {patience:?}",
                    options.replicas
                )))
            }
        }
    }

    /// Runs a command where the key that is its first argument is, or anywhere if that is none of ours.
    pub(crate) async fn command(&self, command: Cmd) -> Result<Value, Fault> {
        let slot = match command.args_iter().nth(1) {
            Some(Arg::Simple(key)) if key.starts_with(b"wl:{") => Some(slot_of(key)),
            _ => None,
        };
        let request = Request { purpose: self.purpose, slot, before: &[], replicas: None };
        self.send(&request, &command).await.map(|(answer, _)| answer)
    }

    /// Whether the user may have several commands run as one, as far as is known.
    pub(crate) fn may_transact(&self) -> bool {
        self.servers.connector.may_transact()
    }

    /// Runs a command on one server, whatever slots it has.
    pub(crate) async fn command_at(&self, target: &Target, command: &Cmd) -> Result<Value, Fault> {
        let endpoint = self.servers.router.endpoint_to(self.purpose, target);
        let mut answers = endpoint.exchange(&[command], &self.has_sent).await?;
        no_error(answers.pop().unwrap_or(Value::Nil))
    }

    async fn evaluate(
        &self,
        request: &Request<'_>,
        script: &'static Script,
        keys: &[Bytes],
        args: &[Bytes],
    ) -> Result<(Value, Option<Value>), Fault> {
        // In a transaction a server that does not know the script would have run the commands before it.
        let (verb, known_as) =
            if request.is_transaction() { ("EVAL", script.text()) } else { ("EVALSHA", script.digest()) };
        match self.send(request, &evaluation(verb, known_as, keys, args)).await {
            Err(Fault::Server(error)) if error.code == "NOSCRIPT" => {
                tracing::debug!(script = script.name, "the server gets a script");
                self.send(request, &evaluation("EVAL", script.text(), keys, args)).await
            }
            result => result,
        }
    }

    /// Sends a request to where it belongs, until a server takes it or patience ends.
    async fn send(&self, request: &Request<'_>, command: &Cmd) -> Result<(Value, Option<Value>), Fault> {
        let router = &self.servers.router;
        let until = (Instant::now() + self.patience).min(self.deadline - LAST_WORD);
        let (mut tries, mut hops, mut ask) = (0, 0, None::<Target>);
        loop {
            let asked = ask.take();
            let result = match &asked {
                Some(target) => {
                    self.attempt(request, &router.endpoint_to(request.purpose, target), command, true).await
                }
                None => match router.endpoint(request.purpose, request.slot).await {
                    Ok(endpoint) => self.attempt(request, &endpoint, command, false).await,
                    Err(why) => Err((why.into(), None)),
                },
            };
            let (fault, endpoint) = match result {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let next = match self.judge(&fault, endpoint.as_deref()) {
                // A node that is being given a slot takes no transaction for it, nor a script (see `keys`).
                Next::Elsewhere(Some(_)) if request.is_transaction() => Next::Later,
                next => next,
            };
            hops += 1;
            match next {
                Next::Elsewhere(target) if hops <= HOPS_MAX => ask = target,
                Next::Later if Instant::now() < until => {
                    tries += 1;
                    sleep(
                        pause(tries, PAUSE.0, PAUSE.1).min(until.saturating_duration_since(Instant::now())),
                    )
                    .await;
                }
                _ => return Err(fault),
            }
        }
    }

    /// What to do about a failure.
    fn judge(&self, fault: &Fault, endpoint: Option<&Endpoint>) -> Next {
        let router = &self.servers.router;
        let is_cluster = router.is_cluster();
        match fault {
            // Another node may have the slot by now, if it can be found out who.
            Fault::Unreachable(why) if is_cluster && why.remedy != Remedy::Change => {
                router.doubt();
                Next::Later
            }
            Fault::Lost(_) | Fault::Timeout(_) => {
                router.doubt();
                Next::Never
            }
            Fault::Server(error) if is_brief(error) => {
                router.doubt();
                if let Some(endpoint) = endpoint
                    && matches!(error.code.as_str(), "READONLY" | "MASTERDOWN")
                {
                    // The name may lead to another server by now.
                    endpoint.retire_any();
                }
                Next::Later
            }
            Fault::Server(error) if is_cluster && matches!(error.code.as_str(), "MOVED" | "ASK") => {
                let place = endpoint.and_then(|endpoint| redirection(&error.text, &endpoint.target));
                match place {
                    Some((slot, target)) if error.code == "MOVED" => {
                        router.moved(slot, target);
                        Next::Elsewhere(None)
                    }
                    Some((_, target)) => Next::Elsewhere(Some(target)),
                    None => Next::Never,
                }
            }
            _ => Next::Never,
        }
    }

    /// Sends a request to one server.
    async fn attempt(
        &self,
        request: &Request<'_>,
        endpoint: &Arc<Endpoint>,
        command: &Cmd,
        is_asking: bool,
    ) -> Result<(Value, Option<Value>), (Fault, Option<Arc<Endpoint>>)> {
        // In places of their own: every call would carry room for them.
        let asking = is_asking.then(|| Box::new(redis::cmd("ASKING")));
        let wait = request.replicas.map(|(replicas, patience)| {
            Box::new(redis::cmd("WAIT").arg(replicas).arg(patience.as_millis() as u64).to_owned())
        });
        let around = request.is_transaction().then(|| Box::new(["MULTI", "EXEC"].map(redis::cmd)));
        let mut commands = Vec::with_capacity(5 + request.before.len());
        commands.extend(asking.as_deref());
        commands.extend(around.as_ref().map(|around| &around[0]));
        commands.extend(request.before);
        commands.push(command);
        commands.extend(around.as_ref().map(|around| &around[1]));
        commands.extend(wait.as_deref());
        let failed = |fault| (fault, Some(Arc::clone(endpoint)));
        if request.is_transaction() {
            // A connection that is made now finds out whether it takes one.
            endpoint.connection().await.map_err(|why| failed(why.into()))?;
            if !self.may_transact() {
                return Err(failed(said("NOPERM", "MULTI and EXEC").into()));
            }
        }
        let mut answers = endpoint.exchange(&commands, &self.has_sent).await.map_err(failed)?;
        let reached = wait.and_then(|_| answers.pop());
        let answer = if request.is_transaction() { self.executed(answers) } else { Ok(answers.pop()) };
        let answer = no_error(answer.map_err(failed)?.unwrap_or(Value::Nil)).map_err(failed)?;
        Ok((answer, reached))
    }

    /// What the last command of a transaction was answered; notes where a right to transactions was taken away.
    fn executed(&self, answers: Vec<Value>) -> Result<Option<Value>, Fault> {
        if let Some(Value::ServerError(error)) = answers.first() {
            // The commands ran one by one.
            self.servers.connector.forbid_transactions();
            return Err(Fault::from(server_error(error)).partial());
        }
        let answer = executed(answers);
        if let Some(Value::ServerError(error)) = &answer
            && server_error(error).code == "NOPERM"
        {
            self.servers.connector.forbid_transactions();
        }
        Ok(answer)
    }
}

/// Where a request goes, what goes before it in the same transaction, and what it waits for.
struct Request<'c> {
    purpose: Purpose,
    slot: Option<u16>,
    before: &'c [Cmd],
    replicas: Option<(u32, Duration)>,
}

impl Request<'_> {
    fn is_transaction(&self) -> bool {
        !self.before.is_empty()
    }
}

/// What to do after a failure.
enum Next {
    Never,
    Later,
    /// To this server once, or to where the map says now.
    Elsewhere(Option<Target>),
}

fn evaluation(verb: &str, script: &str, keys: &[Bytes], args: &[Bytes]) -> Cmd {
    let mut command = redis::cmd(verb);
    command.arg(script).arg(keys.len());
    for part in keys.iter().chain(args) {
        command.arg(&part[..]);
    }
    command
}

/// What the last command of a transaction was answered, from the answers to all: the first error, if there is one.
fn executed(mut answers: Vec<Value>) -> Option<Value> {
    let is_error = |answer: &&Value| matches!(answer, Value::ServerError(_));
    let executed = match answers.pop()? {
        Value::Array(answers) => answers,
        // It was given up for a command that could not be queued, and that says why.
        refused => answers.into_iter().chain([refused]).collect(),
    };
    let error = executed.iter().find(is_error).cloned();
    error.or_else(|| executed.into_iter().last())
}

fn no_error(answer: Value) -> Result<Value, Fault> {
    match answer {
        Value::ServerError(error) => Err(server_error(&error).into()),
        answer => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error() -> Value {
        let text = b"-OOM no memory\r\n".as_slice();
        redis::parse_redis_value(text).unwrap()
    }

    #[test]
    fn a_transaction_answers_what_its_script_said_or_the_first_error() {
        let (ok, queued) = (|| Value::Okay, || Value::SimpleString("QUEUED".to_owned()));
        let done = |answers| vec![ok(), queued(), queued(), Value::Array(answers)];
        assert_eq!(executed(done(vec![Value::Int(1), Value::Int(2)])), Some(Value::Int(2)));
        assert_eq!(executed(done(vec![error(), Value::Int(2)])), Some(error()));
        assert_eq!(executed(done(vec![Value::Int(1), error()])), Some(error()));
        let aborted = redis::parse_redis_value(b"-EXECABORT it was given up\r\n").unwrap();
        assert_eq!(executed(vec![ok(), error(), queued(), aborted.clone()]), Some(error()));
        assert_eq!(executed(vec![ok(), queued(), queued(), aborted.clone()]), Some(aborted));
    }
}
