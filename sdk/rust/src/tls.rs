// Also change: internal/trireme/rpc/listen_flags.py (which names the other languages' files).

//! TLS: PEM files that are read again when they change, and the names in callers' certificates.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::{self, client::ResolvesClientCert};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, SignatureScheme};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_stream::wrappers::ReceiverStream;
use x509_cert::der::Decode;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// How long a caller may take for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// PEM files, which are read again when they change.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// The plugin's own certificate, with those between it and the authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub private_key: PathBuf,
    /// The authority of callers' certificates, one of which each caller must show. None: callers need none.
    pub client_ca: Option<PathBuf>,
    /// Names of callers' certificates (DNS name, URI, common name), one of which a caller must have. Every caller with a
    /// certificate of the authority may check health. Empty: any caller with such a certificate.
    pub allowed_identities: Vec<String>,
}

impl TlsFiles {
    /// What is wrong with them, by the flags that set them.
    pub(crate) fn check(&self) -> Result<(), String> {
        let empty = |path: &Path| path.as_os_str().is_empty();
        match (empty(&self.certificate), empty(&self.private_key)) {
            (true, false) | (false, true) => Err("--tls-cert-file and --tls-private-key-file: set both or none".into()),
            (true, true) if self.client_ca.is_some() => Err("--client-ca-file: needs --tls-cert-file".into()),
            _ if self.client_ca.is_none() && !self.allowed_identities.is_empty() => {
                Err("--allowed-identities: needs --client-ca-file".into())
            }
            (true, true) => Err("--tls-cert-file: needs a file".into()),
            (false, false) => Ok(()),
        }
    }

    fn stamps(&self) -> [Option<Stamp>; 3] {
        let stamp = |path: &Path| std::fs::metadata(path).and_then(|found| Ok((found.modified()?, found.len()))).ok();
        [stamp(&self.certificate), stamp(&self.private_key), self.client_ca.as_deref().and_then(stamp)]
    }

    fn read(&self) -> Result<Contents, String> {
        let pair = Arc::new(self.read_pair()?);
        let Some(file) = &self.client_ca else { return Ok(Contents { pair, authority: None }) };
        let mut authority = RootCertStore::empty();
        for each in certificates("--client-ca-file", file)? {
            authority.add(each).map_err(|error| format!("--client-ca-file: {}: {error}", file.display()))?;
        }
        Ok(Contents { pair, authority: Some(Arc::new(authority)) })
    }

    fn read_pair(&self) -> Result<CertifiedKey, String> {
        let chain = certificates("--tls-cert-file", &self.certificate)?;
        let (certificate, private_key) = (self.certificate.display(), self.private_key.display());
        let key = PrivateKeyDer::from_pem_file(&self.private_key).map_err(|error| match error {
            pem::Error::NoItemsFound => {
                format!("--tls-private-key-file: {private_key}: has no PEM private key without a password")
            }
            _ => format!("--tls-private-key-file: {private_key}: {error}"),
        })?;
        CertifiedKey::from_der(chain, key, &provider()).map_err(|error| {
            let pair = format!("--tls-cert-file {certificate} and --tls-private-key-file {private_key}");
            match error {
                rustls::Error::InconsistentKeys(_) => {
                    format!("{pair} do not belong together: use the key that the certificate was issued for")
                }
                _ => format!("{pair} cannot be used: {error}"),
            }
        })
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn certificates(flag: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| format!("{flag}: {}: {error}", file.display()))?;
    if found.is_empty() { Err(format!("{flag}: {}: has no PEM certificate", file.display())) } else { Ok(found) }
}

/// Logs that callers refuse the certificate, if its time has passed or has not come.
fn warn_unless_valid(file: &Path, certificate: &[u8], now: SystemTime) {
    let Ok(parsed) = x509_cert::Certificate::from_der(certificate) else { return };
    let (validity, file) = (parsed.tbs_certificate.validity, file.display());
    if now > validity.not_after.to_system_time() {
        let ended = validity.not_after;
        tracing::warn!(%file, %ended, "the certificate has expired: callers refuse it until the file is replaced");
    } else if now < validity.not_before.to_system_time() {
        let begins = validity.not_before;
        tracing::warn!(%file, %begins, "the certificate is not valid yet: callers refuse it until then");
    }
}

/// What the files have.
#[derive(Clone, Debug)]
struct Contents {
    pair: Arc<CertifiedKey>,
    authority: Option<Arc<RootCertStore>>,
}

impl Contents {
    fn server(&self) -> Result<ServerConfig, String> {
        let builder = ServerConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let builder = match &self.authority {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(authority.clone(), provider()).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| format!("--client-ca-file: {error}"))?)
            }
        };
        let pair = tokio_rustls::rustls::sign::SingleCertAndKey::from(self.pair.clone());
        let mut config = builder.with_cert_resolver(Arc::new(pair));
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

/// When a file was changed, and its size in bytes.
type Stamp = (SystemTime, u64);

struct Current {
    stamps: [Option<Stamp>; 3],
    contents: Contents,
    server: Arc<ServerConfig>,
}

/// TLS as the files have it now.
pub(crate) struct Reloaded {
    files: TlsFiles,
    current: Mutex<Current>,
}

impl std::fmt::Debug for Reloaded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.files.fmt(formatter)
    }
}

impl Reloaded {
    pub(crate) fn new(files: &TlsFiles) -> Result<Self, String> {
        files.check()?;
        let (stamps, contents) = (files.stamps(), files.read()?);
        let server = Arc::new(contents.server()?);
        warn_unless_valid(&files.certificate, &contents.pair.cert[0], SystemTime::now());
        Ok(Self { files: files.clone(), current: Mutex::new(Current { stamps, contents, server }) })
    }

    /// Reads the files again if one has changed. Files that cannot be used leave in force what was, and are logged once.
    fn refresh<T>(&self, take: impl FnOnce(&Current) -> T) -> T {
        let mut current = self.current.lock().expect("no panic while it is held");
        let stamps = self.files.stamps();
        if stamps != current.stamps {
            current.stamps = stamps;
            match self.files.read().and_then(|contents| Ok((contents.server()?, contents))) {
                Ok((server, contents)) => {
                    (current.server, current.contents) = (Arc::new(server), contents);
                    tracing::info!("TLS files were read again");
                    warn_unless_valid(&self.files.certificate, &current.contents.pair.cert[0], SystemTime::now());
                }
                Err(error) => tracing::error!(error, "changed TLS files cannot be used: those before stay in use"),
            }
        }
        take(&current)
    }

    /// TLS of a client with this certificate, which expects a server with one of the authority.
    pub(crate) fn client(self: &Arc<Self>) -> Result<ClientConfig, String> {
        let authority = self.refresh(|current| current.contents.authority.clone());
        let authority = authority.ok_or("the files have no client_ca, by which the scheduler is known")?;
        let builder = ClientConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let mut config = builder.with_root_certificates(authority).with_client_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    /// The connections of a listener once their handshake is done. Those whose handshake fails are left out.
    pub(crate) fn incoming(self, listener: TcpListener) -> ReceiverStream<std::io::Result<TlsStream<TcpStream>>> {
        let (accepted, stream) = tokio::sync::mpsc::channel(16);
        tokio::spawn(async move {
            while !accepted.is_closed() {
                let connection = tokio::select! {
                    connection = listener.accept() => connection,
                    () = accepted.closed() => return,
                };
                let Ok((connection, caller)) = connection else {
                    // The process has too many open files, for example.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                };
                let acceptor = TlsAcceptor::from(self.refresh(|current| current.server.clone()));
                let accepted = accepted.clone();
                tokio::spawn(async move {
                    let _ = connection.set_nodelay(true); // slower without, but right
                    match tokio::time::timeout(HANDSHAKE, acceptor.accept(connection)).await {
                        Ok(Ok(secure)) => drop(accepted.send(Ok(secure)).await),
                        Ok(Err(error)) => tracing::warn!(%caller, %error, "refused a connection"),
                        Err(_) => tracing::warn!(%caller, "refused a connection: the TLS handshake took too long"),
                    }
                });
            }
        });
        ReceiverStream::new(stream)
    }
}

impl ResolvesClientCert for Reloaded {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.refresh(|current| current.contents.pair.clone()))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// The names in a certificate: DNS names, URIs, and the common name.
pub(crate) fn identities(certificate: &[u8]) -> Vec<String> {
    let Ok(parsed) = x509_cert::Certificate::from_der(certificate) else { return Vec::new() };
    let mut names = Vec::new();
    if let Ok(Some((_, alternatives))) = parsed.tbs_certificate.get::<SubjectAltName>() {
        names.extend(alternatives.0.iter().filter_map(|name| match name {
            GeneralName::DnsName(name) => Some(name.to_string()),
            GeneralName::UniformResourceIdentifier(name) => Some(name.to_string()),
            _ => None,
        }));
    }
    let attributes = parsed.tbs_certificate.subject.0.iter().flat_map(|part| part.0.iter());
    let common = attributes.filter(|attribute| attribute.oid == COMMON_NAME);
    names.extend(common.filter_map(|name| String::from_utf8(name.value.value().to_vec()).ok()));
    names
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
