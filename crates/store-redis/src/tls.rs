//! TLS towards the server: a certificate that a trusted authority has signed for the host's name.

use rustls::ClientConfig;
use windlass_core::store::StoreResult;
use windlass_store_server::tls::{builder, provider, roots};

use crate::RedisOptions;

/// What a connection of these options trusts. Reads files.
pub(crate) fn client_config(options: &RedisOptions) -> StoreResult<ClientConfig> {
    let roots = roots(options.ca_file.as_deref(), "ca_file")?;
    Ok(builder(provider())?.with_root_certificates(roots).with_no_client_auth())
}
