//! TLS towards the server, with as much checking as the URL asks for.
//!
//! The provider of cryptography is named here, so that an application may have any other as its default.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use windlass_core::StoreError;
use windlass_core::store::StoreResult;

use crate::{PostgresOptions, SslMode};

/// What a connection of these options trusts. Reads files.
pub(crate) fn client_config(options: &PostgresOptions) -> StoreResult<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let internal = |error: &dyn std::fmt::Display| StoreError::Internal {
        what: format!("cannot set up TLS: {error}"),
        source: None,
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| internal(&error))?;
    let has_roots = options.ssl_root_cert.is_some();
    let verifier: Arc<dyn ServerCertVerifier> = match options.ssl_mode {
        SslMode::VerifyFull => {
            let roots = Arc::new(roots(options)?);
            WebPkiServerVerifier::builder_with_provider(roots, provider)
                .build()
                .map_err(|error| internal(&error))?
        }
        SslMode::VerifyCa => Arc::new(ChainOnly { roots: Some(roots(options)?), provider }),
        // As other clients: a root certificate that is named is also used.
        SslMode::Prefer | SslMode::Require if has_roots => {
            Arc::new(ChainOnly { roots: Some(roots(options)?), provider })
        }
        SslMode::Disable | SslMode::Prefer | SslMode::Require => {
            Arc::new(ChainOnly { roots: None, provider })
        }
    };
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

fn roots(options: &PostgresOptions) -> StoreResult<RootCertStore> {
    let mut store = RootCertStore::empty();
    let Some(path) = &options.ssl_root_cert else {
        let found = rustls_native_certs::load_native_certs();
        let (added, _) = store.add_parsable_certificates(found.certs);
        if added == 0 {
            let text = "this system has no certificates of authorities: name a file by sslrootcert=path";
            return Err(StoreError::Address(text.to_owned()));
        }
        return Ok(store);
    };
    let refused = |error: &dyn std::fmt::Display| {
        StoreError::Address(format!("sslrootcert={}: {error}", path.display()))
    };
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

/// Checks who signed the certificate but not whose it is, or nothing of the two. That the other side has the
/// certificate's key is always checked.
#[derive(Debug)]
struct ChainOnly {
    roots: Option<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ChainOnly {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
