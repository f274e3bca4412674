// Also change: internal/trireme/sdk/metrics.py (which names the other languages' files).

//! Metrics of a plugin's calls, as Prometheus reads them.

use std::sync::Arc;
use std::time::Instant;

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry, TextEncoder};
use tokio::net::TcpListener;

/// Upper bounds of durations in seconds: a plugin's calls take from a fraction of a millisecond to its deadline.
const BUCKETS: [f64; 14] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The metrics of one plugin. What the plugin registers with prometheus' default registry is served too.
pub(crate) struct Metrics {
    registry: Registry,
    calls: IntCounterVec,
    durations: HistogramVec,
    running: IntGauge,
}

impl Metrics {
    pub(crate) fn new(plugin: &str) -> Result<Arc<Self>, prometheus::Error> {
        let calls = Opts::new("trireme_plugin_calls_total", "Calls that ended, by RPC and gRPC code.");
        let calls = IntCounterVec::new(calls.const_label("plugin", plugin), &["rpc", "code"])?;
        let durations = HistogramOpts::new("trireme_plugin_call_duration_seconds", "Duration of calls, by RPC.");
        let durations = durations.const_label("plugin", plugin).buckets(BUCKETS.to_vec());
        let durations = HistogramVec::new(durations, &["rpc"])?;
        let running = Opts::new("trireme_plugin_calls_in_flight", "Calls that have begun and not ended.");
        let running = IntGauge::with_opts(running.const_label("plugin", plugin))?;
        let registry = Registry::new();
        registry.register(Box::new(calls.clone()))?;
        registry.register(Box::new(durations.clone()))?;
        registry.register(Box::new(running.clone()))?;
        Ok(Arc::new(Self { registry, calls, durations, running }))
    }

    /// Notes that a call begins. It ends when what is returned is dropped.
    pub(crate) fn begin(self: &Arc<Self>, rpc: &str) -> Running {
        self.running.inc();
        Running { metrics: self.clone(), rpc: rpc.into(), began: Instant::now(), code: None }
    }

    fn text(&self) -> Result<String, prometheus::Error> {
        let mut families = self.registry.gather();
        families.extend(prometheus::gather());
        TextEncoder::new().encode_to_string(&families)
    }

    /// Serves `GET /metrics`, as long as the task is not aborted.
    pub(crate) async fn serve(self: Arc<Self>, listen: &str) -> Result<tokio::task::JoinHandle<()>, String> {
        let failed = |error: std::io::Error| format!("--metrics-listen: {listen}: {error}");
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        tracing::info!(%address, "serves metrics");
        let page = move || async move {
            match self.text() {
                Ok(text) => ([(CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
                Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
            }
        };
        let pages = axum::Router::new().route("/metrics", axum::routing::get(page));
        Ok(tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, pages).await {
                tracing::error!(%error, "metrics are served no longer");
            }
        }))
    }
}

/// A call under way.
pub(crate) struct Running {
    metrics: Arc<Metrics>,
    rpc: String,
    began: Instant,
    code: Option<tonic::Code>,
}

impl Running {
    pub(crate) fn ends_with(&mut self, code: tonic::Code) {
        self.code = Some(code);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A call without a result is one that its caller has given up.
        let code = name(self.code.unwrap_or(tonic::Code::Cancelled));
        self.metrics.running.dec();
        self.metrics.calls.with_label_values(&[self.rpc.as_str(), code]).inc();
        self.metrics.durations.with_label_values(&[self.rpc.as_str()]).observe(self.began.elapsed().as_secs_f64());
    }
}

/// gRPC's own name of the code.
fn name(code: tonic::Code) -> &'static str {
    use tonic::Code;
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
