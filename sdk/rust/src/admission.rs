// Also change: internal/trireme/rpc/listen_flags.py (which names the other languages' files).

//! What each call passes on its way to the plugin: the check of its caller's identity, and the metrics.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http_body::Frame;
use tonic::body::Body;
use tonic::codegen::{Bytes, Service, http};
use tonic::transport::server::{TcpConnectInfo, TlsConnectInfo};
use tonic::{Code, Status};
use tower::Layer;

use crate::metrics::{Metrics, Running};
use crate::shared::{CALLER, Caller};
use crate::tls;

/// The layer of a server.
#[derive(Clone)]
pub(crate) struct Admission {
    pub(crate) metrics: Arc<Metrics>,
    /// Empty: every caller whom TLS lets in.
    pub(crate) identities: Arc<HashSet<String>>,
}

impl<S> Layer<S> for Admission {
    type Service = Admitted<S>;

    fn layer(&self, inner: S) -> Admitted<S> {
        Admitted { admission: self.clone(), inner }
    }
}

impl Admission {
    /// Refuses callers without an allowed identity; any caller may check health.
    fn check(&self, request: &http::Request<Body>) -> Result<(), Status> {
        if self.identities.is_empty() || request.uri().path().starts_with("/grpc.health.") {
            return Ok(());
        }
        let secure = request.extensions().get::<TlsConnectInfo<TcpConnectInfo>>();
        let certificates = secure.and_then(TlsConnectInfo::peer_certs);
        let Some(certificate) = certificates.as_ref().and_then(|chain| chain.first()) else {
            return Err(Status::permission_denied("the caller has no certificate"));
        };
        let names = tls::identities(certificate);
        if names.iter().any(|name| self.identities.contains(name)) {
            return Ok(());
        }
        let names = names.join(", ");
        Err(Status::permission_denied(format!("the caller's certificate names {names}: none is allowed")))
    }
}

/// A service behind the layer.
#[derive(Clone)]
pub(crate) struct Admitted<S> {
    admission: Admission,
    inner: S,
}

impl<S> Service<http::Request<Body>> for Admitted<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = http::Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let rpc = path.starts_with("/trireme.").then(|| path.rsplit('/').next().unwrap_or_default().to_string());
        let mut running = rpc.map(|rpc| self.admission.metrics.begin(&rpc));
        if let Err(status) = self.admission.check(&request) {
            if let Some(running) = &mut running {
                running.ends_with(status.code());
            }
            return Box::pin(async move { Ok(status.into_http()) });
        }
        let called = CALLER.scope(caller(request.headers()), self.inner.call(request));
        Box::pin(async move {
            let response = called.await?;
            let Some(mut running) = running else { return Ok(response) };
            if let Some(code) = code(response.headers()) {
                running.ends_with(code); // an error has no body
            }
            Ok(response.map(|body| Body::new(Measured { body, running })))
        })
    }
}

fn caller(headers: &http::HeaderMap) -> Caller {
    let trace_parent = headers.get("traceparent").and_then(|value| value.to_str().ok()).map(String::from);
    Caller { deadline: deadline(headers), trace_parent }
}

/// When the caller gives up, of gRPC's header: at most eight digits, and a unit.
fn deadline(headers: &http::HeaderMap) -> Option<Instant> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let amount = u64::from(digits.parse::<u32>().ok()?);
    let timeout = match unit {
        "H" => Duration::from_secs(amount * 3600),
        "M" => Duration::from_secs(amount * 60),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    };
    Instant::now().checked_add(timeout)
}

fn code(headers: &http::HeaderMap) -> Option<Code> {
    headers.get("grpc-status").map(|code| Code::from_bytes(code.as_bytes()))
}

/// The body of a response, whose last frame has the code.
struct Measured {
    body: Body,
    running: Running,
}

impl http_body::Body for Measured {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            if let Some(code) = frame.trailers_ref().and_then(code) {
                this.running.ends_with(code);
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
