//! What TLS towards a server trusts.
//!
//! The provider of cryptography is named here, so that an application may have any other as its default.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use windlass_core::StoreError;
use windlass_core::store::StoreResult;

/// The cryptography that stores use.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The beginning of a configuration.
pub fn builder(provider: Arc<CryptoProvider>) -> StoreResult<ConfigBuilder<ClientConfig, WantsVerifier>> {
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unfit(&error))
}

/// TLS cannot be set up, whatever the address.
pub fn unfit(error: &dyn Display) -> StoreError {
    StoreError::Internal { what: format!("cannot set up TLS: {error}"), source: None }
}

/// The authorities in a file, or those of the system. `parameter` is what names the file in a URL. Reads files.
pub fn roots(path: Option<&Path>, parameter: &str) -> StoreResult<RootCertStore> {
    let mut store = RootCertStore::empty();
    let Some(path) = path else {
        let found = rustls_native_certs::load_native_certs();
        let (added, _) = store.add_parsable_certificates(found.certs);
        if added == 0 {
            let text =
                format!("this system has no certificates of authorities: name a file by {parameter}=path");
            return Err(StoreError::Address(text));
        }
        return Ok(store);
    };
    let refused =
        |error: &dyn Display| StoreError::Address(format!("{parameter}={}: {error}", path.display()));
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
