//! The parts of a running worker, put together.

use crate::client::Client;
use crate::error::Result;
use crate::executor::Executor;
use crate::shutdown::Running;
use crate::worker::Config;

pub(crate) struct Engine;

impl Engine {
    pub(crate) fn start(_client: Client, _config: Config, _executor: Executor) -> Result<Running> {
        Err(crate::error::ConfigError::NoRuntime.into())
    }
}
