//! What kind of server this is, and whether jobs are safe there.
//!
//! Version and layout come from `HELLO`, which every user may say. Whether keys may be thrown away and what reaches the
//! disk come from `CONFIG`, or from `INFO` where a host forbids that.

use redis::{Cmd, Value};
use windlass_core::StoreError;
use windlass_core::store::{Durability, StoreResult};

use super::{Call, Server};
use crate::error::{Fault, Meaning};
use crate::options::{Eviction, Target};
use crate::session::Session;

/// The oldest version that will do.
const OLDEST: (u32, u32) = (6, 2);

/// What a server says about itself; of several, the worst.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Probe {
    /// What an accepted job survives.
    pub(crate) durability: Durability,
}

/// The settings that matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Settings {
    policy: Option<String>,
    appends: Option<bool>,
    fsync: Option<String>,
}

/// Asks all servers, and refuses those that could lose an accepted job at any time.
pub(crate) async fn probe(server: &Server) -> StoreResult<Probe> {
    server.call(Call::READ, async |_, session| ask_all(&session).await).await
}

async fn ask_all(session: &Session) -> Result<Probe, Fault> {
    let servers = session.servers();
    if !servers.router.is_cluster() && meet(session, &servers.options.targets[0]).await? == Mode::Cluster {
        if servers.options.database != 0 {
            let text =
                "this is a node of a Cluster, which has only database 0: leave the database out of the URL";
            return Err(StoreError::Address(text.to_owned()).into());
        }
        servers.router.become_cluster();
    }
    let targets = servers.router.targets().await?;
    let (mut worst, mut unreachable) = (None, None);
    for target in &targets {
        match settings(session, target).await {
            Ok(settings) => {
                check(&settings, target, servers.options.eviction)?;
                let found = durability(&settings);
                worst = Some(worst.map_or(found, |worst: Durability| worst.min(found)));
            }
            // A Cluster goes on without some of its nodes, and so does the store.
            Err(Fault::Unreachable(why)) if targets.len() > 1 => unreachable = Some(why),
            Err(fault) => return Err(fault),
        }
    }
    match (worst, unreachable) {
        (Some(durability), _) => Ok(Probe { durability }),
        (None, Some(why)) => Err(why.into()),
        (None, None) => Err(Fault::Defect("there is no server to ask".to_owned())),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Alone,
    Cluster,
}

/// Refuses a server that is too old.
async fn meet(session: &Session, target: &Target) -> Result<Mode, Fault> {
    let old = |version: &str| {
        let text = format!("the server is Redis {version}: use 6.2 or newer");
        Fault::from(StoreError::Address(text))
    };
    let answer = match session.command_at(target, &redis::cmd("HELLO")).await {
        Ok(answer) => pairs(answer),
        Err(Fault::Server(error)) if error.meaning == Meaning::Defect => return Err(old("before 6.2")),
        Err(fault) => return Err(fault),
    };
    let field = |name: &str| answer.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let version = field("version").unwrap_or("of unknown version");
    if number(version).is_none_or(|version| version < OLDEST) {
        return Err(old(version));
    }
    match field("mode") {
        Some("cluster") => Ok(Mode::Cluster),
        Some("sentinel") => {
            let text = format!("{target} is a Sentinel: use redis-sentinel://host:port/primary");
            Err(StoreError::Address(text).into())
        }
        _ => Ok(Mode::Alone),
    }
}

/// `7.0.15` as its first two numbers.
fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// Refuses a password that the server does not ask for. For `default` the server says so itself, see
/// [`connector`](super::connector); for another user only to one who may ask. To try a wrong password would tell as well,
/// and would look like an attack in the server's log.
async fn check_password(session: &Session, target: &Target) -> Result<(), Fault> {
    let options = &session.servers().options;
    let (Some(user), Some(_)) = (&options.user, &options.password) else { return Ok(()) };
    let question = redis::cmd("ACL").arg("GETUSER").arg(user).to_owned();
    let fields = match ask(session, target, &question).await? {
        Value::Array(fields) => fields,
        Value::Map(fields) => fields.into_iter().flat_map(|(name, value)| [name, value]).collect(),
        _ => return Ok(()),
    };
    let (fields, _) = fields.as_chunks::<2>();
    let flags = fields.iter().find(|[name, _]| text(name).as_deref() == Some("flags"));
    let takes_any = match flags {
        Some([_, Value::Array(flags) | Value::Set(flags)]) => {
            flags.iter().any(|flag| text(flag).as_deref() == Some("nopass"))
        }
        _ => false,
    };
    if takes_any {
        return Err(StoreError::Address(format!(
            "{target} takes any password for user {user}, which has none (nopass), and the URL has one: give the user \
             one (ACL SETUSER), or leave user and password out of the URL"
        ))
        .into());
    }
    Ok(())
}

async fn settings(session: &Session, target: &Target) -> Result<Settings, Fault> {
    meet(session, target).await?;
    check_password(session, target).await?;
    let mut settings = Settings::default();
    for name in ["maxmemory-policy", "append*"] {
        let question = redis::cmd("CONFIG").arg("GET").arg(name).to_owned();
        for (name, value) in pairs(ask(session, target, &question).await?) {
            match name.as_str() {
                "maxmemory-policy" => settings.policy = Some(value),
                "appendonly" => settings.appends = Some(value == "yes"),
                "appendfsync" => settings.fsync = Some(value),
                _ => {}
            }
        }
    }
    if settings.policy.is_none() || settings.appends.is_none() {
        tracing::debug!(%target, "the server does not tell its settings, so they are read from INFO");
        let text = match ask(session, target, &redis::cmd("INFO")).await? {
            Value::BulkString(text) => String::from_utf8_lossy(&text).into_owned(),
            Value::VerbatimString { text, .. } => text,
            _ => String::new(),
        };
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        settings.policy = settings.policy.or(field("maxmemory_policy").map(str::to_owned));
        settings.appends = settings.appends.or(field("aof_enabled").map(|value| value == "1"));
    }
    Ok(settings)
}

/// What a server or its host refuses to tell is as good as not there.
async fn ask(session: &Session, target: &Target, question: &Cmd) -> Result<Value, Fault> {
    match session.command_at(target, question).await {
        Err(Fault::Server(error)) if error.code == "NOPERM" || error.code == "ERR" => Ok(Value::Nil),
        result => result,
    }
}

fn check(settings: &Settings, target: &Target, eviction: Eviction) -> StoreResult<()> {
    let refused = match settings.policy.as_deref() {
        Some("noeviction") => return Ok(()),
        Some(policy) => format!(
            "{target} throws keys away when its memory is full (maxmemory-policy {policy}), and with them accepted \
             jobs: set maxmemory-policy noeviction"
        ),
        None => format!(
            "{target} does not tell whether it throws keys away when its memory is full: let the user say INFO \
             (+info) and set maxmemory-policy noeviction"
        ),
    };
    match eviction {
        Eviction::Refuse => Err(StoreError::Address(format!("{refused}, or say eviction=allow in the URL"))),
        Eviction::Allow => {
            tracing::warn!("{refused}; used all the same, because of eviction=allow");
            Ok(())
        }
    }
}

/// A file that is written before each answer survives the server; one that is also synced survives the machine.
/// Snapshots lose what came after the last one.
fn durability(settings: &Settings) -> Durability {
    match (settings.appends, settings.fsync.as_deref()) {
        (Some(true), Some("always")) => Durability::PowerCut,
        // Meant to lose a second in a power cut only. But while the disk is busy, the server keeps back for up to two
        // seconds what it has answered already, and a kill takes that.
        (Some(true), _) => Durability::Delayed,
        _ => Durability::Server,
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(text) => Some(String::from_utf8_lossy(text).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Names and values, however the protocol shows them.
fn pairs(value: Value) -> Vec<(String, String)> {
    let pair = |name: &Value, value: &Value| Some((text(name)?, text(value)?));
    match value {
        Value::Array(values) => {
            let (pairs, _) = values.as_chunks::<2>();
            pairs.iter().filter_map(|[name, value]| pair(name, value)).collect()
        }
        Value::Map(values) => values.iter().filter_map(|(name, value)| pair(name, value)).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(policy: Option<&str>, appends: Option<bool>, fsync: Option<&str>) -> Settings {
        Settings { policy: policy.map(str::to_owned), appends, fsync: fsync.map(str::to_owned) }
    }

    #[test]
    fn only_a_file_that_is_synced_before_the_answer_survives_a_power_cut() {
        for (appends, fsync, expected) in [
            (Some(true), Some("always"), Durability::PowerCut),
            (Some(true), Some("everysec"), Durability::Delayed),
            (Some(true), Some("no"), Durability::Delayed),
            (Some(true), None, Durability::Delayed),
            (Some(false), Some("always"), Durability::Server),
            (None, None, Durability::Server),
        ] {
            assert_eq!(durability(&settings(None, appends, fsync)), expected, "{appends:?} {fsync:?}");
        }
    }

    #[test]
    fn only_a_server_that_keeps_all_keys_will_do() {
        let target = Target::Tcp("h".to_owned(), 1);
        assert!(check(&settings(Some("noeviction"), None, None), &target, Eviction::Refuse).is_ok());
        for policy in [Some("allkeys-lru"), Some("volatile-ttl"), None] {
            let settings = settings(policy, None, None);
            let error = check(&settings, &target, Eviction::Refuse).unwrap_err().to_string();
            assert!(error.contains("noeviction") && error.contains("eviction=allow"), "{error}");
            assert!(check(&settings, &target, Eviction::Allow).is_ok());
        }
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(number("10.0.1") > number("6.2.0") && number("6.0.16") < Some(OLDEST));
        assert_eq!(number("unknown"), None);
    }
}
