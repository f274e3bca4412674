// Also change: internal/trireme/sdk/handle.py (which names the other languages' files).

//! Requests of a plugin to the scheduler: allow or reject a pod that waits, and activate pods.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::tls::{Reloaded, TlsFiles};
use crate::v1;
use crate::v1::handle_service_client::HandleServiceClient;

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A client of the frontend. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Handle {
    plugin: String,
    client: HandleServiceClient<Channel>,
}

impl Handle {
    /// For the plugin of this name; the address is `http://host:port` or `unix:/path`. It connects with the first request.
    pub fn new(address: &str, plugin: &str) -> Result<Self, tonic::transport::Error> {
        let channel = Endpoint::from_shared(address.to_string())?.timeout(TIMEOUT).connect_lazy();
        Ok(Self { plugin: plugin.into(), client: HandleServiceClient::new(channel) })
    }

    /// With TLS, for an address `https://host:port`: shows the certificate of these files, and expects a scheduler with one
    /// of the authority `client_ca`. Files that change are used for the next connection.
    pub fn with_tls(
        address: &str,
        plugin: &str,
        files: &TlsFiles,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let reloaded = Arc::new(Reloaded::new(files)?);
        // tonic does the TLS of addresses with https itself, unless it is given the connections.
        let endpoint = Endpoint::from_shared(address.replacen("https://", "http://", 1))?.timeout(TIMEOUT);
        let connect = tower::service_fn(move |uri: Uri| connect(uri, reloaded.clone()));
        let client = HandleServiceClient::new(endpoint.connect_with_connector_lazy(connect));
        Ok(Self { plugin: plugin.into(), client })
    }

    /// Ends the plugin's wait for a pod; false if the pod does not wait.
    pub async fn allow(&self, pod: v1::PodIdentity) -> Result<bool, Status> {
        let request = v1::AllowRequest { pod: Some(pod), plugin: self.plugin.clone() };
        unless_not_found(self.client.clone().allow(request).await.map(drop))
    }

    /// Refuses a pod that waits; false if it does not wait.
    pub async fn reject(&self, pod: v1::PodIdentity, message: &str) -> Result<bool, Status> {
        let request = v1::RejectRequest { pod: Some(pod), plugin: self.plugin.clone(), message: message.into() };
        unless_not_found(self.client.clone().reject(request).await.map(drop))
    }

    /// Moves pods to the active queue, also during their back-off; returns those that are tried next.
    pub async fn activate(&self, pods: Vec<v1::PodIdentity>) -> Result<Vec<v1::PodIdentity>, Status> {
        Ok(self.client.clone().activate(v1::ActivateRequest { pods }).await?.into_inner().activated)
    }
}

async fn connect(uri: Uri, reloaded: Arc<Reloaded>) -> io::Result<TokioIo<tokio_rustls::client::TlsStream<TcpStream>>> {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_string();
    let config = reloaded.client().map_err(io::Error::other)?;
    let stream = TcpStream::connect((host.as_str(), uri.port_u16().unwrap_or(443))).await?;
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map(TokioIo::new)
}

fn unless_not_found(answer: Result<(), Status>) -> Result<bool, Status> {
    match answer {
        Ok(()) => Ok(true),
        Err(status) if status.code() == Code::NotFound => Ok(false),
        Err(status) => Err(status),
    }
}
