//! The shared work on Windlass in SQLite.

#[path = "../../../protocol.rs"]
mod protocol;
#[path = "../../../windlass.rs"]
mod rival;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    protocol::run::<rival::Windlass>(include_str!("../Cargo.lock")).await
}
