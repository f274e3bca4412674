//! What every plugin has by the SDK: the handshake, configuration, fencing, cancellation, limits, metrics, a graceful stop.

mod served;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use served::{connect, cycle, nodes, placements, served, served_with};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tonic::{Code, Request};
use trireme_sdk::v1::filter_plugin_client::FilterPluginClient;
use trireme_sdk::v1::plugin_service_client::PluginServiceClient;
use trireme_sdk::v1::queue_service_client::QueueServiceClient;
use trireme_sdk::v1::{self, Hint};
use trireme_sdk::{
    ArgumentErrors, Call, Event, Info, Node, Options, Placement, Plugin, Point, Ready, Status, Verdict, async_trait,
};

fn filtering() -> Info {
    Info::new("P", [Point::Filter, Point::Reserve])
}

fn request(names: &[&str]) -> v1::FilterRequest {
    v1::FilterRequest { cycle: cycle(Vec::new()), count: 1, nodes: nodes(names) }
}

struct Passing;

#[async_trait]
impl Plugin for Passing {
    fn filter(&self, _: &Call, node: &Node) -> Verdict {
        assert_ne!(node.name, "odd", "no such node");
        Verdict::Pass
    }
}

#[tokio::test]
async fn the_handshake_says_what_the_plugin_needs() {
    let (channel, _stop) = served(filtering().idempotent().max_concurrent_calls(3).version("2"), Passing).await;
    let mut plugin = PluginServiceClient::new(channel);
    let answer = plugin.get_plugin_info(v1::GetPluginInfoRequest::default()).await.unwrap().into_inner();
    let info = &answer.plugins[0];
    assert!(info.idempotent);
    assert_eq!((info.name.as_str(), info.version.as_str(), info.max_concurrent_calls), ("P", "2", 3));
    assert!(!answer.instance.is_empty());
}

#[tokio::test]
async fn a_caller_without_a_required_feature_is_refused() {
    let (channel, _stop) = served(filtering().required_features(["one", "two", "three"]), Passing).await;
    let mut plugin = PluginServiceClient::new(channel);
    let knows = |features: &[&str]| v1::GetPluginInfoRequest { features: features.iter().map(|each| each.to_string()).collect() };
    let refused = plugin.get_plugin_info(knows(&["two"])).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(refused.message(), "required_features: the caller does not know one, three; update the scheduler");
    let answer = plugin.get_plugin_info(knows(&["three", "two", "one", "four"])).await.unwrap().into_inner();
    assert_eq!(answer.plugins[0].required_features, ["one", "two", "three"]);
}

#[tokio::test]
async fn a_deposed_leader_is_refused_and_another_scheduler_is_not() {
    let (channel, _stop) = served(filtering(), Passing).await;
    let mut filter = FilterPluginClient::new(channel);
    for (scheduler, epoch, admitted) in [("one", 10, true), ("one", 9, false), ("two", 1, true), ("one", 11, true)] {
        let mut request = request(&["a"]);
        let fence = v1::Fence { scheduler_id: scheduler.into(), epoch, ..Default::default() };
        request.cycle.as_mut().unwrap().fence = Some(fence);
        match filter.filter(request).await {
            Ok(_) => assert!(admitted, "{scheduler} {epoch}"),
            Err(status) => {
                assert!(!admitted, "{scheduler} {epoch}: {status}");
                assert_eq!(status.code(), Code::FailedPrecondition);
                assert_eq!(status.metadata().get("trireme-reason").unwrap(), "stale-epoch");
            }
        }
    }
}

#[tokio::test]
async fn a_panic_names_plugin_and_step_and_the_process_goes_on() {
    let (channel, _stop) = served(filtering(), Passing).await;
    let mut filter = FilterPluginClient::new(channel);
    let status = filter.filter(request(&["a", "odd"])).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert!(status.message().starts_with("plugin P: Filter: panic: "), "{status}");
    assert!(status.message().contains("no such node"), "{status}");
    filter.filter(request(&["a"])).await.unwrap();
}

struct InZone(String);

#[async_trait]
impl Plugin for InZone {
    fn filter(&self, _: &Call, node: &Node) -> Verdict {
        if node.name.starts_with(&self.0) { Verdict::Pass } else { Status::unresolvable("elsewhere").into() }
    }

    fn queueing_hint(
        &self, _: &v1::Pod, _: &v1::ClusterEvent, _: Option<&serde_json::Value>, new: Option<&serde_json::Value>,
    ) -> bool {
        new.is_some_and(|node| node["zone"] == self.0.as_str())
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    zone: String,
}

#[tokio::test]
async fn each_profile_has_its_configuration_and_wrong_arguments_are_named() {
    let info = Info::new("P", [Point::Filter]).events([Event::new("Node", ["Add"]).with_hint()]);
    let (channel, _stop) = served_with(info, |configuration| {
        let arguments: Arguments = configuration.args()?;
        if arguments.zone.is_empty() {
            return Err(ArgumentErrors::of("zone", "must not be empty"));
        }
        Ok(InZone(arguments.zone))
    })
    .await;
    let mut plugin = PluginServiceClient::new(channel.clone());
    let mut filter = FilterPluginClient::new(channel.clone());
    let of = |profile: &str| {
        let mut request = request(&["east-1"]);
        let cycle = request.cycle.as_mut().unwrap();
        (cycle.profile, cycle.config_hash) = (profile.into(), 9);
        request
    };
    let status = filter.filter(of("one")).await.unwrap_err();
    assert_eq!(status.metadata().get("trireme-reason").unwrap(), "config-mismatch");
    for (profile, args, problems) in [
        ("one", r#"{"zone": "east"}"#, ""),
        ("two", r#"{"zone": "west"}"#, ""),
        ("two", r#"{"zone": ""}"#, "args.zone: must not be empty"),
        ("two", r#"{"zone": 3}"#, "args.zone: invalid type: integer `3`, expected a string"),
        ("two", r#"{"zone": "a", "zones": []}"#, "args.zones: unknown field"),
    ] {
        let request = v1::ConfigureRequest {
            plugin: "P".into(), config_hash: 9, profile: profile.into(), args_json: args.into(), ..Default::default()
        };
        let errors = plugin.configure(request).await.unwrap().into_inner().errors;
        let found: Vec<_> = errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect();
        assert_eq!(found.join(", "), problems);
    }
    let index = |answer: v1::FilterResponse| answer.columns.unwrap().status_index;
    assert_eq!(index(filter.filter(of("one")).await.unwrap().into_inner()), [0]);
    assert_eq!(index(filter.filter(of("two")).await.unwrap().into_inner()), [1]);
    let pod = |profile: &str| v1::Pod {
        spec: Some(v1::PodSpec { scheduler_name: profile.into(), ..Default::default() }),
        ..Default::default()
    };
    let hint = v1::QueueingHintRequest {
        new_json: br#"{"zone": "west"}"#.to_vec(), pods: vec![pod("one"), pod("two")], config_hash: 9, ..Default::default()
    };
    let hints = QueueServiceClient::new(channel).queueing_hint(hint).await.unwrap().into_inner().hints;
    assert_eq!(hints, [Hint::QueueSkip as i32, Hint::Queue as i32]);
}

/// Waits in reserve until it is dropped or released.
#[derive(Default)]
struct Waiting {
    entered: Notify,
    release: Notify,
    running: AtomicUsize,
    most: AtomicUsize,
    reserved: AtomicUsize,
    left: std::sync::Mutex<Option<Duration>>,
}

struct Ends<'a>(&'a AtomicUsize);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Shared(Arc<Waiting>);

#[async_trait]
impl Plugin for Shared {
    async fn reserve(&self, call: &Call, _: &Placement<'_>) -> Result<Ready, Status> {
        let running = self.0.running.fetch_add(1, Ordering::SeqCst) + 1;
        let _ends = Ends(&self.0.running);
        self.0.most.fetch_max(running, Ordering::SeqCst);
        *self.0.left.lock().unwrap() = call.deadline().map(|deadline| deadline - Instant::now());
        self.0.entered.notify_one();
        self.0.release.notified().await;
        self.0.reserved.fetch_add(1, Ordering::SeqCst);
        Ok(Ready::default())
    }
}

fn reserve() -> v1::ReserveRequest {
    v1::ReserveRequest { cycle: cycle(Vec::new()), placements: placements(&["a"]) }
}

#[tokio::test]
async fn a_call_that_its_caller_gives_up_ends_and_leaves_its_place() {
    let plugin = Arc::new(Waiting::default());
    let (channel, _stop) = served(filtering().max_concurrent_calls(1), Shared(plugin.clone())).await;
    let mut filter = FilterPluginClient::new(channel);
    let given_up = {
        let mut filter = filter.clone();
        tokio::spawn(async move { filter.reserve(reserve()).await })
    };
    plugin.entered.notified().await;
    given_up.abort();
    let second = tokio::spawn(async move { filter.reserve(reserve()).await });
    plugin.entered.notified().await; // the first one has left the only place
    plugin.release.notify_one();
    second.await.unwrap().unwrap();
    assert_eq!((plugin.most.load(Ordering::SeqCst), plugin.reserved.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn a_call_knows_its_deadline_and_ends_with_it() {
    let plugin = Arc::new(Waiting::default());
    let (channel, _stop) = served(filtering(), Shared(plugin.clone())).await;
    let mut request = Request::new(reserve());
    request.set_timeout(Duration::from_millis(300));
    FilterPluginClient::new(channel).reserve(request).await.unwrap_err();
    let left = plugin.left.lock().unwrap().unwrap();
    assert!(left <= Duration::from_millis(300), "{left:?}");
    while plugin.running.load(Ordering::SeqCst) > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(plugin.reserved.load(Ordering::SeqCst), 0);
}

/// Refuses every node with the trace of its caller.
struct Traced;

#[async_trait]
impl Plugin for Traced {
    fn filter(&self, call: &Call, _: &Node) -> Verdict {
        Status::unschedulable(format!("trace {:?}", call.trace_parent())).into()
    }
}

#[tokio::test]
async fn a_call_knows_the_trace_of_its_caller() {
    let (channel, _stop) = served(filtering(), Traced).await;
    let mut filter = FilterPluginClient::new(channel);
    for (sent, shown) in [(None, "trace None"), (Some("00-0a-0b-01"), "trace Some(\"00-0a-0b-01\")")] {
        let selection = nodes(&["a"]);
        let mut request = Request::new(v1::FilterRequest { cycle: cycle(Vec::new()), nodes: selection, ..Default::default() });
        if let Some(header) = sent {
            request.metadata_mut().insert("traceparent", header.parse().unwrap());
        }
        let columns = filter.filter(request).await.unwrap().into_inner().columns.unwrap();
        assert_eq!(columns.statuses[0].messages, [shown]);
    }
}

async fn page(address: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn metrics_count_calls_by_rpc_and_code_and_a_stop_lets_calls_end() {
    let plugin = Arc::new(Waiting::default());
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let options = Options { metrics_listen: free.clone(), ..Default::default() };
    let (stop, stopped) = oneshot::channel::<()>();
    let (listening, address) = oneshot::channel();
    let shared = Shared(plugin.clone());
    let serving = tokio::spawn(async move {
        let told = |address: &str| listening.send(address.to_string()).unwrap();
        trireme_sdk::serve(filtering(), shared, &options, told, async move { drop(stopped.await) }).await
    });
    let channel = connect(&address.await.unwrap()).await;
    let mut filter = FilterPluginClient::new(channel.clone());
    filter.filter(request(&["a"])).await.unwrap();
    filter.post_filter(v1::PostFilterRequest { cycle: cycle(vec![1]), ..Default::default() }).await.unwrap();
    let text = page(&free).await;
    assert!(text.contains(r#"trireme_plugin_calls_total{code="OK",plugin="P",rpc="Filter"} 1"#), "{text}");
    assert!(text.contains(r#"trireme_plugin_call_duration_seconds_count{plugin="P",rpc="Filter"} 1"#), "{text}");
    let under_way = tokio::spawn(async move { filter.reserve(reserve()).await });
    plugin.entered.notified().await;
    assert!(page(&free).await.contains(r#"trireme_plugin_calls_in_flight{plugin="P"} 1"#));
    stop.send(()).unwrap();
    plugin.release.notify_one();
    under_way.await.unwrap().unwrap();
    drop(channel);
    serving.await.unwrap().unwrap();
}
