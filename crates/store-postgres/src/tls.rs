//! TLS towards the server, with as much checking as the URL asks for.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use windlass_core::store::StoreResult;
use windlass_store_server::tls::{builder, provider, roots, unfit};

use crate::{PostgresOptions, SslMode};

/// What a connection of these options trusts. Reads files.
pub(crate) fn client_config(options: &PostgresOptions) -> StoreResult<ClientConfig> {
    let provider = provider();
    let builder = builder(Arc::clone(&provider))?;
    let roots = || roots(options.ssl_root_cert.as_deref(), "sslrootcert");
    let has_roots = options.ssl_root_cert.is_some();
    let verifier: Arc<dyn ServerCertVerifier> = match options.ssl_mode {
        SslMode::VerifyFull => WebPkiServerVerifier::builder_with_provider(Arc::new(roots()?), provider)
            .build()
            .map_err(|error| unfit(&error))?,
        SslMode::VerifyCa => Arc::new(ChainOnly { roots: Some(roots()?), provider }),
        // As other clients: a root certificate that is named is also used.
        SslMode::Prefer | SslMode::Require if has_roots => {
            Arc::new(ChainOnly { roots: Some(roots()?), provider })
        }
        SslMode::Disable | SslMode::Prefer | SslMode::Require => {
            Arc::new(ChainOnly { roots: None, provider })
        }
    };
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
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
