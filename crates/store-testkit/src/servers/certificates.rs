//! Certificates for a server with TLS, made by the `openssl` command.

use std::fs;
use std::path::PathBuf;

use super::StartError;
use super::home::{Home, run};

/// Makes an authority and a certificate for this machine's loopback address, signed by it. As the server's
/// account, since the server accepts only a key that is its own and that no other account can read.
pub(super) fn create(home: &Home) -> Result<(), StartError> {
    let extensions = home.path().join("extensions");
    fs::write(&extensions, "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
        .map_err(StartError::step("write what the certificate is for"))?;
    let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(
        home,
        &format!(
            "req -x509 {new_key} -keyout authority.key -out authority.crt -days 2 -subj /CN=windlass-tests"
        ),
    )?;
    openssl(home, &format!("req -new {new_key} -keyout server.key -out server.csr -subj /CN=localhost"))?;
    openssl(
        home,
        "x509 -req -in server.csr -CA authority.crt -CAkey authority.key -CAcreateserial -days 2 \
         -extfile extensions -out server.crt",
    )
}

/// The certificate that clients trust.
pub(super) fn authority(home: &Home) -> PathBuf {
    home.path().join("authority.crt")
}

/// The server's certificate.
pub(super) fn certificate(home: &Home) -> PathBuf {
    home.path().join("server.crt")
}

/// The server's key.
pub(super) fn key(home: &Home) -> PathBuf {
    home.path().join("server.key")
}

fn openssl(home: &Home, arguments: &str) -> Result<(), StartError> {
    let mut command = home.command("openssl");
    command.args(arguments.split_whitespace());
    run(command).map(drop)
}
