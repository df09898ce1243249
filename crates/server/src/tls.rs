//! TLS by rustls: a certificate and its key from files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use tokio_rustls::TlsAcceptor;

/// A certificate with its key, as a server shows it. TLS 1.2 and 1.3.
#[derive(Clone)]
pub struct Tls {
    pub(crate) acceptor: TlsAcceptor,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// Why a certificate and a key cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file that cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A file without what it should hold.
    #[error("{} holds no {what} in PEM form", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// `certificate` or `private key`.
        what: &'static str,
    },
    /// The two do not go together.
    #[error("the certificate and the key cannot be used: {0}")]
    Pair(#[from] rustls::Error),
}

impl Tls {
    /// Reads a chain of certificates and a key in PEM form.
    ///
    /// # Errors
    /// When a file does not read, or the two do not go together.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let read =
            |path: &Path| fs::read(path).map_err(|error| TlsError::File { path: path.to_owned(), error });
        let empty = |path: &Path, what| TlsError::Empty { path: path.to_owned(), what };
        let text = read(certificate)?;
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(&text).collect::<Result<_, _>>().unwrap_or_default();
        if chain.is_empty() {
            return Err(empty(certificate, "certificate"));
        }
        let private =
            PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_none| empty(key, "private key"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, private)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)) })
    }
}
