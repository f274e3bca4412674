//! Requests to the scheduler over mutual TLS, and files that are replaced.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tonic::{Request, Response, Status, async_trait};
use trireme_sdk::v1::handle_service_server::{HandleService, HandleServiceServer};
use trireme_sdk::{Handle, TlsFiles, v1};

/// Knows one pod that waits.
struct Frontend;

#[async_trait]
impl HandleService for Frontend {
    async fn allow(&self, request: Request<v1::AllowRequest>) -> Result<Response<v1::AllowResponse>, Status> {
        let request = request.into_inner();
        if request.pod.unwrap_or_default().name != "waiting" || request.plugin != "P" {
            return Err(Status::not_found("the pod does not wait"));
        }
        Ok(Response::new(v1::AllowResponse::default()))
    }

    async fn reject(&self, _: Request<v1::RejectRequest>) -> Result<Response<v1::RejectResponse>, Status> {
        Ok(Response::new(v1::RejectResponse::default()))
    }

    async fn activate(&self, request: Request<v1::ActivateRequest>) -> Result<Response<v1::ActivateResponse>, Status> {
        Ok(Response::new(v1::ActivateResponse { activated: request.into_inner().pods }))
    }
}

fn openssl(folder: &Path, arguments: &str) {
    let ended = Command::new("openssl").current_dir(folder).args(arguments.split(' ')).output();
    let ended = ended.expect("openssl is installed: the test makes its certificates with it");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// An authority with a certificate for 127.0.0.1 and for clients, in a folder of its own.
fn certificates(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("trireme-sdk-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1").unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&folder, &format!("req -x509 {key} -keyout ca.key -out ca.crt -days 2 -subj /CN=authority"));
    openssl(&folder, &format!("req {key} -keyout tls.key -out tls.csr -subj /CN={name}"));
    openssl(&folder, "x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out tls.crt");
    folder
}

fn files(folder: &Path) -> TlsFiles {
    TlsFiles {
        certificate: folder.join("tls.crt"),
        private_key: folder.join("tls.key"),
        client_ca: Some(folder.join("ca.crt")),
        allowed_identities: Vec::new(),
    }
}

/// Serves a frontend that demands certificates of the authority; returns its address.
async fn frontend(folder: &Path) -> String {
    let mut authority = RootCertStore::empty();
    authority.add(CertificateDer::from_pem_file(folder.join("ca.crt")).unwrap()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authority), provider.clone()).build().unwrap();
    let chain = vec![CertificateDer::from_pem_file(folder.join("tls.crt")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(folder.join("tls.key")).unwrap();
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (listener, acceptor) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), TlsAcceptor::from(Arc::new(config)));
    let address = listener.local_addr().unwrap();
    let (accepted, incoming) = tokio::sync::mpsc::channel(4);
    tokio::spawn(async move {
        loop {
            let (connection, _) = listener.accept().await.unwrap();
            if let Ok(secure) = acceptor.accept(connection).await {
                accepted.send(Ok::<_, std::io::Error>(secure)).await.unwrap();
            }
        }
    });
    let incoming = tokio_stream::wrappers::ReceiverStream::new(incoming);
    let server = tonic::transport::Server::builder().add_service(HandleServiceServer::new(Frontend));
    tokio::spawn(server.serve_with_incoming(incoming));
    format!("https://{address}")
}

fn pod(name: &str) -> v1::PodIdentity {
    v1::PodIdentity { namespace: "shop".into(), name: name.into(), uid: "u".into() }
}

/// A plugin that cannot show who it is cannot let pods go; one whose files came late must not be restarted.
#[tokio::test]
async fn the_scheduler_is_called_over_mutual_tls_with_the_files_as_they_are_now() {
    let (right, other) = (certificates("plugin"), certificates("stranger"));
    let address = frontend(&right).await;
    let used = std::env::temp_dir().join(format!("trireme-sdk-{}-used", std::process::id()));
    fs::create_dir_all(&used).unwrap();
    let put = |from: &Path| ["tls.crt", "tls.key", "ca.crt"].map(|name| fs::copy(from.join(name), used.join(name)).unwrap());
    put(&other);
    let handle = Handle::with_tls(&address, "P", &files(&used)).unwrap();
    handle.allow(pod("waiting")).await.unwrap_err();
    put(&right);
    assert!(handle.allow(pod("waiting")).await.unwrap());
    assert!(!handle.allow(pod("gone")).await.unwrap());
    assert!(handle.reject(pod("waiting"), "no quota").await.unwrap());
    assert_eq!(handle.activate(vec![pod("a")]).await.unwrap(), [pod("a")]);
    for folder in [right, other, used] {
        fs::remove_dir_all(folder).unwrap();
    }
}
