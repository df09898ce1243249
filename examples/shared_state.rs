//! How do handlers get at a database pool, a mail client or the client that enqueues more jobs?

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use windlass::{Client, Ctx, FromCtx, FromRef, Job, JobError, State, Worker};

/// Everything that handlers share. Cheap to clone.
#[derive(Clone)]
struct App {
    mailer: Mailer,
    sent: Arc<AtomicU32>,
}

#[derive(Clone)]
struct Mailer {
    from: &'static str,
}

/// Lets a handler ask for the part alone.
impl FromRef<App> for Mailer {
    fn from_ref(app: &App) -> Self {
        app.mailer.clone()
    }
}

/// An extractor of one's own: the tenant that the job was tagged with.
struct Tenant(String);

impl<S: Sync> FromCtx<S> for Tenant {
    type Rejection = JobError;
    async fn from_ctx(ctx: &Ctx, _state: &S) -> Result<Self, JobError> {
        let tag = ctx.tags().iter().find_map(|tag| tag.as_str().strip_prefix("tenant:"));
        tag.map(|name| Self(name.to_owned())).ok_or_else(|| JobError::fail("the job has no tenant"))
    }
}

#[derive(Serialize, Deserialize)]
struct SignUp {
    user: String,
}

impl Job for SignUp {
    const KIND: &'static str = "sign_up";
    type Output = ();
}

#[derive(Serialize, Deserialize)]
struct Welcome {
    user: String,
}

impl Job for Welcome {
    const KIND: &'static str = "welcome";
    type Output = u32;
}

async fn sign_up(job: SignUp, Tenant(tenant): Tenant, client: Client) -> Result<(), JobError> {
    println!("{} signed up at {tenant}", job.user);
    client.enqueue(Welcome { user: job.user }).tag(format!("tenant:{tenant}")).await?;
    Ok(())
}

async fn welcome(
    job: Welcome,
    State(mailer): State<Mailer>,
    State(app): State<App>,
) -> Result<u32, JobError> {
    println!("{} welcomes {}", mailer.from, job.user);
    Ok(app.sent.fetch_add(1, Ordering::Relaxed) + 1)
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let client = windlass::open("memory:").await?;
    let app = App { mailer: Mailer { from: "hello@example.org" }, sent: Arc::default() };
    for user in ["ada", "grace"] {
        client.enqueue(SignUp { user: user.into() }).tag("tenant:acme").await?;
    }
    // Forgetting the state, or a `FromRef`, does not compile.
    let worker = Worker::with_state(&client, app.clone()).handle(sign_up).handle(welcome);
    let drained = worker.drain().await?;
    println!("{} jobs, {} mails", drained.completed, app.sent.load(Ordering::Relaxed));
    Ok(())
}
