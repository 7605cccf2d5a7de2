//! TLS: the handshake of a connection, and its errors in words.

use std::{fs::File, io, path::Path, sync::Arc};

use redis::{RedisError, RedisResult};
use tokio::{net::TcpStream, task::spawn_blocking};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        AlertDescription, CertificateError, ClientConfig, Error, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

use super::{
    halves::{Reader, Writer},
    tls_files::TlsFiles,
};

/// Makes TLS of `stream`, a connection to `host`.
pub(super) async fn handshake(
    files: &TlsFiles,
    host: &str,
    stream: TcpStream,
) -> RedisResult<(Reader, Writer)> {
    let wrong = |reason: String| redis::make_extension_error("TLS".to_owned(), Some(reason));
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| wrong("the host is neither a name nor an address".to_owned()))?;
    // Read for each connection, so that renewed certificates need no restart.
    let read = files.clone();
    let config = spawn_blocking(move || config(&read)).await;
    let config = config.map_err(|error| wrong(error.to_string()))?.map_err(wrong)?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let stream = stream.map_err(|error| explain(files, error, Some(host)))?;
    let (reader, writer) = tokio::io::split(stream);
    Ok((Box::new(reader), Box::new(writer)))
}

fn config(files: &TlsFiles) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match &files.ca {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| in_file(path, &error))?;
            }
        }
        None => {
            // Some of a system's files may be broken; the others count.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err("this system has no CA certificates: name a file of them with tls_ca".to_owned());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let Some((cert, key)) = &files.cert else { return Ok(config.with_no_client_auth()) };
    let private = PrivateKeyDer::from_pem_reader(open(key)?)
        .map_err(|_| format!("{}: no private key in PEM", key.display()))?;
    config.with_client_auth_cert(certificates(cert)?, private).map_err(|error| match error {
        Error::InconsistentKeys(_) => {
            format!("{} is not the key of the certificate in {}", key.display(), cert.display())
        }
        error => in_file(cert, &error),
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_reader_iter(open(path)?).collect::<Result<Vec<_>, _>>();
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(format!("{}: no certificate in PEM", path.display())),
    }
}

fn open(path: &Path) -> Result<io::BufReader<File>, String> {
    File::open(path).map(io::BufReader::new).map_err(|error| in_file(path, &error))
}

fn in_file(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

/// Puts an error of TLS into words that say what to do. Any other error stays as it is.
pub(super) fn explain(files: &TlsFiles, error: io::Error, host: Option<&str>) -> RedisError {
    use AlertDescription as Alert;
    let Some(cause) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
        return error.into();
    };
    let host = host.unwrap_or("this host");
    let reason = match cause {
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            match &files.ca {
                Some(path) => format!("no CA in {} has signed the server's certificate", path.display()),
                None => "no CA of this system has signed the server's certificate: name its CA with tls_ca"
                    .to_owned(),
            }
        }
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "the server's certificate has expired: renew it".to_owned()
        }
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "the server's certificate is not valid yet: check the clocks".to_owned(),
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => format!("the server's certificate is not for {host}: write a name that it has in the URL"),
        Error::InvalidMessage(_) => "no TLS at this port: write redis:// for a port without".to_owned(),
        Error::AlertReceived(Alert::CertificateRequired) => {
            "the server asks for a certificate: name one and its key with tls_cert and tls_key".to_owned()
        }
        Error::AlertReceived(
            alert @ (Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::DecryptError
            | Alert::UnsupportedCertificate),
        ) if files.cert.is_some() => format!("the server refuses the certificate of tls_cert: {alert:?}"),
        other => other.to_string(),
    };
    redis::make_extension_error("TLS".to_owned(), Some(reason))
}
