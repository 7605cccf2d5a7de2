//! Certificates of a test's own.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;

/// A certificate authority, and the certificates that it has signed, as PEM files in a temp folder.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    dir: TempDir,
}

/// The files of one certificate.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate.
    pub cert: String,
    /// Its private key.
    pub key: String,
}

// === impl Authority ===

impl Authority {
    /// A new authority.
    ///
    /// # Panics
    ///
    /// When its files cannot be written.
    #[must_use]
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temp folder");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let cert = params.self_signed(&key).expect("a certificate");
        std::fs::write(dir.path().join("ca.pem"), cert.pem()).expect("a file");
        Self { issuer: Issuer::new(params, key), dir }
    }

    /// The file of its own certificate.
    #[must_use]
    pub fn ca(&self) -> String {
        text(&self.dir.path().join("ca.pem"))
    }

    /// A certificate for these hosts, in files called `name`. An expired one ended in 2020.
    ///
    /// # Panics
    ///
    /// When its files cannot be written.
    #[must_use]
    pub fn sign(&self, name: &str, hosts: &[&str], expired: bool) -> Certificate {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).expect("names of hosts");
        params.distinguished_name.push(DnType::CommonName, name);
        if expired {
            (params.not_before, params.not_after) = (date_time_ymd(2019, 1, 1), date_time_ymd(2020, 1, 1));
        }
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate");
        let file = |end: &str, pem: String| {
            let path: PathBuf = self.dir.path().join(format!("{name}.{end}"));
            std::fs::write(&path, pem).expect("a file");
            text(&path)
        };
        Certificate { cert: file("pem", cert.pem()), key: file("key", key.serialize_pem()) }
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("a temp folder has a name in UTF-8").to_owned()
}
