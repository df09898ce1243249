//! TLS towards the server: a certificate that a trusted authority has signed for the host's name.
//!
//! The provider of cryptography is named here, so that an application may have any other as its default.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use windlass_core::StoreError;
use windlass_core::store::StoreResult;

use crate::RedisOptions;

/// What a connection of these options trusts. Reads files.
pub(crate) fn client_config(options: &RedisOptions) -> StoreResult<ClientConfig> {
    let internal = |error: &dyn std::fmt::Display| StoreError::Internal {
        what: format!("cannot set up TLS: {error}"),
        source: None,
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| internal(&error))?;
    Ok(builder.with_root_certificates(roots(options)?).with_no_client_auth())
}

fn roots(options: &RedisOptions) -> StoreResult<RootCertStore> {
    let mut store = RootCertStore::empty();
    let Some(path) = &options.ca_file else {
        let found = rustls_native_certs::load_native_certs();
        let (added, _) = store.add_parsable_certificates(found.certs);
        if added == 0 {
            let text = "this system has no certificates of authorities: name a file by ca_file=path";
            return Err(StoreError::Address(text.to_owned()));
        }
        return Ok(store);
    };
    let refused =
        |error: &dyn std::fmt::Display| StoreError::Address(format!("ca_file={}: {error}", path.display()));
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| refused(&error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| refused(&error))?;
        store.add(certificate).map_err(|error| refused(&error))?;
    }
    if store.is_empty() {
        return Err(refused(&"no certificate in this file: use one in PEM"));
    }
    Ok(store)
}
