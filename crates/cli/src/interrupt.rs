//! Being asked to end, for commands that have something to put away first.

/// Hears Ctrl-C, and where there is such a thing, SIGTERM. From when it is made until the program ends these
/// signals no longer kill, so it is made before there is anything to put away.
#[derive(Debug)]
pub(crate) struct Interrupt {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
}

impl Interrupt {
    #[cfg(unix)]
    pub(crate) fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { signals: [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?] })
    }

    #[cfg(not(unix))]
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {})
    }

    /// Waits until one of them arrives. May be dropped and called again.
    #[cfg(unix)]
    pub(crate) async fn heard(&mut self) {
        let [interrupt, terminate] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    pub(crate) async fn heard(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a handler nothing can be waited for; the signal ends the program by itself.
            std::future::pending::<()>().await;
        }
    }
}
