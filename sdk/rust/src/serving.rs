// Also change: internal/trireme/framework/programs.py (the line by which a process says that it serves).
// Also change: internal/trireme/sdk/plugin_server.py (which names the other languages' files).
// Also change: internal/trireme/sdk/logs.py (which names the other languages' files).

//! Serves a plugin on one address: its extension points, the handshake, health and reflection.

use std::error::Error;
use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::watch;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::service::Routes;
use tonic::transport::Server as GrpcServer;
use tonic_health::ServingStatus;

use crate::admission::Admission;
use crate::configuration::{ArgumentErrors, Configuration};
use crate::follower::Follower;
use crate::info::{Info, Point};
use crate::metrics::Metrics;
use crate::plugin::Plugin;
use crate::services::Server;
use crate::shared::{Shared, Source};
use crate::tls::{Reloaded, TlsFiles};
use crate::v1;

/// A message to or from a plugin is at most so long.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// How long calls under way may take after the stop.
const GRACE: Duration = Duration::from_secs(10);

const DESCRIPTORS: &[u8] = include_bytes!("v1/descriptors.bin");

/// How a plugin is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// `host:port` or `unix:/path`.
    pub listen: String,
    /// Logs as JSON.
    pub json_logs: bool,
    /// TLS of the server; None: there is none. Unix sockets are plain.
    pub tls: Option<TlsFiles>,
    /// `host:port` for metrics in Prometheus' text format at /metrics; empty: none.
    pub metrics_listen: String,
}

impl Default for Options {
    fn default() -> Self {
        Self { listen: "127.0.0.1:0".into(), json_logs: false, tls: None, metrics_listen: String::new() }
    }
}

/// Serves a plugin without arguments as the command line says, until SIGTERM or SIGINT.
pub fn main<P: Plugin>(info: Info, plugin: P) -> ExitCode {
    run(info, Source::One(Arc::new(plugin)))
}

/// Serves a plugin that is made for each profile's arguments.
pub fn main_with<P: Plugin>(
    info: Info,
    make: impl Fn(Configuration) -> Result<P, ArgumentErrors> + Send + Sync + 'static,
) -> ExitCode {
    run(info, Source::Factory(Box::new(make)))
}

fn run<P: Plugin>(info: Info, source: Source<P>) -> ExitCode {
    let options = match parse(std::env::args().skip(1), &info) {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error}");
            return ExitCode::from(2);
        }
    };
    let logs = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false);
    if options.json_logs {
        logs.json().init();
    } else {
        logs.init();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("Error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let served = runtime.block_on(async {
        let stop = stop_signal()?;
        serve_source(info, source, &options, |address| println!("listening on {address}"), stop).await
    });
    // A method that hangs does not keep the process.
    runtime.shutdown_background();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

const FLAGS: &str = "  --listen ADDRESS              host:port or unix:/path (default 127.0.0.1:0)
  --tls-cert-file FILE          certificate to serve with; read again when it changes
  --tls-private-key-file FILE   its private key
  --client-ca-file FILE         authority that callers' certificates must come from
  --allowed-identities NAMES    names of callers' certificates, comma-separated
  --metrics-listen HOST:PORT    metrics in Prometheus' text format at /metrics
  --log-format FORMAT           text or json, on stderr (default text)";

fn parse(arguments: impl Iterator<Item = String>, info: &Info) -> Result<Option<Options>, String> {
    let (mut options, mut arguments) = (Options::default(), arguments);
    let mut tls = TlsFiles::default();
    while let Some(argument) = arguments.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name.to_string(), Some(value.to_string())),
            None => (argument, None),
        };
        if name == "--help" || name == "-h" {
            let plugin = &info.message.name;
            println!("usage: {plugin} [--listen ADDRESS] [FLAGS]\n\nThe scheduler plugin {plugin}.\n\n{FLAGS}");
            return Ok(None);
        }
        if !FLAGS.contains(&format!("  {name} ")) {
            return Err(format!("unknown flag {name}: --help lists the flags"));
        }
        let value = value.or_else(|| arguments.next()).ok_or(format!("{name}: needs a value"))?;
        match name.as_str() {
            "--listen" => options.listen = value,
            "--metrics-listen" => options.metrics_listen = value,
            "--log-format" => options.json_logs = is_json(&value)?,
            _ => set_tls(&mut tls, &name, value),
        }
    }
    let plain = tls.certificate.as_os_str().is_empty() && tls.private_key.as_os_str().is_empty();
    if !plain || tls.client_ca.is_some() || !tls.allowed_identities.is_empty() {
        tls.check()?;
        options.tls = Some(tls);
    }
    Ok(Some(options))
}

fn is_json(format: &str) -> Result<bool, String> {
    match format {
        "text" => Ok(false),
        "json" => Ok(true),
        _ => Err(format!("--log-format: must be text or json, not {format:?}")),
    }
}

fn set_tls(tls: &mut TlsFiles, flag: &str, value: String) {
    match flag {
        "--tls-cert-file" => tls.certificate = value.into(),
        "--tls-private-key-file" => tls.private_key = value.into(),
        "--client-ca-file" => tls.client_ca = Some(value.into()),
        _ => {
            let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
            tls.allowed_identities = names.map(String::from).collect();
        }
    }
}

fn stop_signal() -> std::io::Result<impl Future<Output = ()> + Send> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    })
}

/// Serves a plugin until `stop` is done; `listening` gets the address. For tests, and programs of their own.
pub async fn serve<P: Plugin>(
    info: Info,
    plugin: P,
    options: &Options,
    listening: impl FnOnce(&str),
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    serve_source(info, Source::One(Arc::new(plugin)), options, listening, stop).await
}

/// The same for a plugin that is made for each profile's arguments.
pub async fn serve_with<P: Plugin>(
    info: Info,
    make: impl Fn(Configuration) -> Result<P, ArgumentErrors> + Send + Sync + 'static,
    options: &Options,
    listening: impl FnOnce(&str),
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    serve_source(info, Source::Factory(Box::new(make)), options, listening, stop).await
}

async fn serve_source<P: Plugin>(
    info: Info,
    source: Source<P>,
    options: &Options,
    listening: impl FnOnce(&str),
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    info.check()?;
    let (stopping, stopped) = watch::channel(false);
    let instance = instance();
    let follower = info.follows().then(|| Follower::new(instance.clone(), stopped.clone()));
    let shared = Arc::new(Shared::new(info, source, instance, follower));
    let admission = Admission {
        metrics: Metrics::new(shared.name())?,
        // A Unix socket is for those who may open it.
        identities: Arc::new(match &options.tls {
            Some(tls) if !options.listen.starts_with("unix:") => tls.allowed_identities.iter().cloned().collect(),
            _ => Default::default(),
        }),
    };
    let metrics_page = match options.metrics_listen.as_str() {
        "" => None,
        listen => Some(admission.metrics.clone().serve(listen).await?),
    };
    let (reporter, health) = tonic_health::server::health_reporter();
    let (routes, names) = routes(&shared)?;
    for name in &names {
        reporter.set_service_status(*name, ServingStatus::Serving).await;
    }
    let router = GrpcServer::builder().layer(admission).add_routes(routes).add_service(health);
    let mut ends = stopped.clone();
    let stop_accepting = async move {
        let _ = ends.wait_for(|stop| *stop).await;
    };
    let grace = async move {
        stop.await;
        for name in names {
            reporter.set_service_status(name, ServingStatus::NotServing).await;
        }
        stopping.send_replace(true);
        tokio::time::sleep(GRACE).await;
    };
    let serving: std::pin::Pin<Box<dyn Future<Output = Result<(), tonic::transport::Error>> + Send>>;
    if let Some(path) = options.listen.strip_prefix("unix:") {
        remove_socket(path)?;
        let listener = UnixListener::bind(path).map_err(|error| format!("--listen: {error}"))?;
        listening(&options.listen);
        serving = Box::pin(router.serve_with_incoming_shutdown(UnixListenerStream::new(listener), stop_accepting));
    } else {
        let tls = options.tls.as_ref().map(Reloaded::new).transpose()?;
        let listener = TcpListener::bind(&options.listen).await.map_err(|error| format!("--listen: {error}"))?;
        listening(&listener.local_addr()?.to_string());
        serving = match tls {
            None => Box::pin(router.serve_with_incoming_shutdown(incoming(listener), stop_accepting)),
            Some(tls) => Box::pin(router.serve_with_incoming_shutdown(tls.incoming(listener), stop_accepting)),
        };
    }
    let served = tokio::select! {
        served = serving => served.map_err(Into::into),
        () = grace => Ok(()),
    };
    if let Some(page) = metrics_page {
        page.abort();
    }
    served
}

/// The services of the plugin's extension points, reflection, and the names of the services.
fn routes<P: Plugin>(shared: &Arc<Shared<P>>) -> Result<(Routes, Vec<&'static str>), Box<dyn Error + Send + Sync>> {
    let mut names = vec!["", "trireme.v1.PluginService"];
    macro_rules! server {
        ($module:ident, $kind:ident, $service:expr) => {
            v1::$module::$kind::new($service)
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES)
        };
    }
    let info = &shared.info;
    let mut routes = Routes::new(server!(plugin_service_server, PluginServiceServer, Server(shared.clone())));
    if info.has(&[Point::PreEnqueue, Point::QueueSort]) || info.has_hints() {
        names.push("trireme.v1.QueueService");
        routes = routes.add_service(server!(queue_service_server, QueueServiceServer, Server(shared.clone())));
    }
    if info.has(&[Point::PreFilter, Point::Filter, Point::PostFilter, Point::Reserve]) {
        names.push("trireme.v1.FilterPlugin");
        routes = routes.add_service(server!(filter_plugin_server, FilterPluginServer, Server(shared.clone())));
    }
    if info.has(&[Point::PreScore, Point::Score, Point::NormalizeScore]) {
        names.push("trireme.v1.ScorePlugin");
        routes = routes.add_service(server!(score_plugin_server, ScorePluginServer, Server(shared.clone())));
    }
    if info.has(&[Point::Permit, Point::PreBind, Point::Bind, Point::PostBind]) {
        names.push("trireme.v1.BindPlugin");
        routes = routes.add_service(server!(bind_plugin_server, BindPluginServer, Server(shared.clone())));
    }
    if info.has(&[Point::PlacementFeasible]) {
        names.push("trireme.v1.PodGroupPlugin");
        routes = routes.add_service(server!(pod_group_plugin_server, PodGroupPluginServer, Server(shared.clone())));
    }
    if let Some(follower) = &shared.follower {
        names.push("trireme.v1.SnapshotFollower");
        routes = routes.add_service(server!(snapshot_follower_server, SnapshotFollowerServer, follower.clone()));
    }
    let reflection = || {
        names.iter().filter(|name| !name.is_empty()).fold(
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
                .with_service_name("grpc.health.v1.Health"),
            |builder, name| builder.with_service_name(*name),
        )
    };
    let routes = routes.add_service(reflection().build_v1()?).add_service(reflection().build_v1alpha()?);
    Ok((routes, names))
}

/// Removes a socket that an earlier run left behind when it was killed; anything else of that name stays.
fn remove_socket(path: &str) -> std::io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path),
        _ => Ok(()),
    }
}

/// Identifies this run.
fn instance() -> String {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", std::process::id(), started.as_nanos())
}

/// The connections of a listener without TLS. What is written goes out at once: the kernel would otherwise hold the end
/// of an answer back for 40 ms, until the caller acknowledges the part before.
fn incoming(listener: TcpListener) -> impl Stream<Item = std::io::Result<TcpStream>> {
    TcpListenerStream::new(listener).map(|connection| {
        connection.inspect(|connection| {
            let _ = connection.set_nodelay(true); // slower without, but right
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_go_out_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let caller = tokio::spawn(TcpStream::connect(address));
        let connection = incoming(listener).next().await.unwrap().unwrap();
        assert!(connection.nodelay().unwrap());
        caller.await.unwrap().unwrap();
    }
}
