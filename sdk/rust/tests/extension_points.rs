//! Each extension point over gRPC: what a method returns, and what the scheduler gets.

mod served;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use served::{code, cycle, items, nodes, placements, served};
use trireme_sdk::v1::bind_plugin_client::BindPluginClient;
use trireme_sdk::v1::filter_plugin_client::FilterPluginClient;
use trireme_sdk::v1::queue_service_client::QueueServiceClient;
use trireme_sdk::v1::score_plugin_client::ScorePluginClient;
use trireme_sdk::v1::{self, Code, Hint};
use trireme_sdk::{
    Bound, Call, Event, Info, Item, Node, Normalization, Permit, PermitWait, Placement, Plugin, Point, PreBind, PreBindWait,
    PreFilter, Ready,
    SortKey, Status, Verdict, async_trait,
};

const UNLIMITED: i32 = i32::MAX;

/// What a message of Duration may have at most.
const LONGEST_SECONDS: i64 = 315_576_000_000;

/// Takes part at every extension point; what it does is said by names.
#[derive(Clone, Default)]
struct Everywhere {
    released: Arc<Mutex<Vec<String>>>,
    bound: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Plugin for Everywhere {
    fn pre_enqueue(&self, pod: &v1::Pod, profile: &str) -> Result<(), Status> {
        match &pod.metadata.as_ref().unwrap().name {
            name if name == "held" => Err(Status::unschedulable(format!("held in {profile}"))),
            _ => Ok(()),
        }
    }

    fn sort_key(&self, pod: &v1::Pod, profile: &str) -> Result<SortKey, Status> {
        match pod.metadata.as_ref().unwrap().name.as_str() {
            "one" => Ok(3.into()),
            "parts" => Ok(SortKey::new([i64::MIN, i64::MAX]).rest([profile.len() as i64; 16])),
            "empty" => Ok(SortKey::new([])),
            "long" => Ok(SortKey::new([0; 17])),
            "rest" => Ok(SortKey::new([0]).rest([0; 18])),
            "panics" => panic!("out of ranks"),
            _ => Err(Status::error("no rank")),
        }
    }

    fn queueing_hint(&self, _: &v1::Pod, event: &v1::ClusterEvent, old: Option<&Value>, new: Option<&Value>) -> bool {
        event.resource == "Node" && old.is_none() && new.is_some_and(|node| node["ready"] == true)
    }

    async fn pre_filter(&self, call: &Call) -> Result<PreFilter, Status> {
        match call.profile.as_str() {
            "refused" => Err(Status::unresolvable("not here").reason("notHere", [("zone", "west".into())])),
            "skipped" => Ok(PreFilter::skip()),
            _ => PreFilter::default().nodes(["a".to_string()]).state(&vec![7u32]),
        }
    }

    fn filter(&self, call: &Call, node: &Node) -> Verdict {
        let room = call.state::<Vec<u32>>().unwrap().map_or(2, |state| state[0]);
        match node.name {
            "bad" => Status::unschedulable("node(s) were bad").into(),
            "small" => Verdict::Room(room + call.removed_pods.len() as u32),
            "none" => Verdict::Room(0),
            _ => Verdict::Pass,
        }
    }

    async fn post_filter(&self, _: &Call, refusals: &v1::NodeColumns) -> Result<v1::PostFilterResponse, Status> {
        if refusals.size == 0 {
            return Err(Status::unschedulable("nothing helps"));
        }
        Ok(v1::PostFilterResponse { nominated_node: "a".into(), ..Default::default() })
    }

    async fn pre_score(&self, call: &Call, nodes: &[Node<'_>]) -> Result<Ready, Status> {
        match call.profile.as_str() {
            "skipped" => Ok(Ready::skip()),
            "refused" => Err(Status::unschedulable("scoring refuses nothing")),
            _ => Ready::with_state(&nodes.len()),
        }
    }

    fn score(&self, call: &Call, node: &Node) -> Result<i64, Status> {
        Ok(node.name.len() as i64 * call.state::<i64>()?.unwrap_or(1))
    }

    fn normalize_scores(&self, _: &Call, _: &[Node<'_>], scores: &mut [i64]) -> Result<(), Status> {
        scores.iter_mut().for_each(|score| *score *= 10);
        Ok(())
    }

    async fn reserve(&self, _: &Call, placement: &Placement<'_>) -> Result<Ready, Status> {
        match placement.pod.name.as_str() {
            "late" => Err(Status::pending("no licence left").reason("noLicence", [("product", "cad".into())])),
            name => Ready::with_state(&name),
        }
    }

    async fn unreserve(&self, _: &Call, placement: &Placement<'_>) {
        self.released.lock().unwrap().push(placement.pod.name.clone());
    }

    async fn permit(&self, _: &Call, item: &Item<'_>) -> Result<Permit, Status> {
        match item.pod.name.as_str() {
            "waiting" => Ok(PermitWait::new(Duration::from_millis(1500)).message("no quota left").into()),
            "endless" => Ok(PermitWait::new(Duration::ZERO).into()),
            "patient" => Ok(PermitWait::new(Duration::MAX).into()),
            "refused" => Err(Status::unschedulable("no quota")),
            _ => Ok(Permit::Allow),
        }
    }

    async fn needs_pre_bind(&self, _: &Call, item: &Item<'_>) -> Result<bool, Status> {
        Ok(item.pod.name != "idle")
    }

    async fn pre_bind(&self, _: &Call, item: &Item<'_>) -> Result<PreBind, Status> {
        match item.state::<String>()?.as_deref() {
            Some("claim") => {
                let claim = v1::ObjectKey { name: "claim".into(), ..Default::default() };
                Ok(PreBindWait::new([claim], Duration::from_secs(30)).into())
            }
            Some("nothing") => Ok(PreBindWait::new([], Duration::MAX).into()),
            Some("idle") => Ok(PreBind::Skip),
            _ => Ok(PreBind::Done),
        }
    }

    async fn bind(&self, _: &Call, item: &Item<'_>) -> Result<Bound, Status> {
        match item.pod.name.as_str() {
            "foreign" => Ok(Bound::Skip),
            "refused" => Err(Status::error("the API server refused it")),
            _ => Ok(Bound::Bound),
        }
    }

    async fn post_bind(&self, _: &Call, item: &Item<'_>) {
        self.bound.lock().unwrap().push(item.pod.name.clone());
    }
}

fn info() -> Info {
    let points = [
        Point::PreEnqueue, Point::QueueSort, Point::PreFilter, Point::Filter, Point::PostFilter, Point::PreScore, Point::Score,
        Point::NormalizeScore, Point::Reserve, Point::Permit, Point::PreBind, Point::Bind, Point::PostBind,
    ];
    Info::new("Everywhere", points)
        .normalization(Normalization::Custom)
        .events([Event::new("Node", ["Add"]).with_hint()])
}

fn in_profile(profile: &str) -> Option<v1::Cycle> {
    Some(v1::Cycle { profile: profile.into(), ..Default::default() })
}

fn pod(name: &str) -> v1::Pod {
    v1::Pod { metadata: Some(v1::ObjectMeta { name: name.into(), ..Default::default() }), ..Default::default() }
}

#[tokio::test]
async fn pre_enqueue_lets_pods_in_and_hints_get_the_objects() {
    let (channel, _stop) = served(info(), Everywhere::default()).await;
    let mut queue = QueueServiceClient::new(channel);
    let pods = vec![pod("a"), pod("held")];
    let request = v1::PreEnqueueRequest { profile: "p".into(), pods, ..Default::default() };
    let statuses = queue.pre_enqueue(request).await.unwrap().into_inner().statuses;
    assert_eq!([statuses[0].code(), statuses[1].code()], [Code::Success, Code::Unschedulable]);
    assert_eq!((statuses[1].plugin.as_str(), statuses[1].messages[0].as_str()), ("Everywhere", "held in p"));
    for (json, hint) in [(r#"{"ready": true}"#, Hint::Queue), (r#"{"ready": false}"#, Hint::QueueSkip)] {
        let event = v1::ClusterEvent { resource: "Node".into(), actions: vec!["Add".into()], hint: true };
        let request = v1::QueueingHintRequest {
            event: Some(event), new_json: json.into(), pods: vec![pod("a")], ..Default::default()
        };
        assert_eq!(queue.queueing_hint(request).await.unwrap().into_inner().hints, [hint as i32]);
    }
}

#[tokio::test]
async fn keys_are_in_the_order_of_the_pods_and_wrong_ones_are_named() {
    let (channel, _stop) = served(info(), Everywhere::default()).await;
    let mut queue = QueueServiceClient::new(channel);
    let request = |names: &[&str]| v1::QueueSortRequest {
        profile: "p".into(), pods: names.iter().map(|name| pod(name)).collect(), ..Default::default()
    };
    let keys = queue.queue_sort(request(&["parts", "one"])).await.unwrap().into_inner().keys;
    let parts = v1::SortKey { level: vec![i64::MIN, i64::MAX], rest: vec![1; 16] };
    assert_eq!(keys, [parts, v1::SortKey { level: vec![3], rest: vec![] }]);
    for (name, problem) in [
        ("empty", "returned a level of 0 numbers: must be 1 to 16"),
        ("long", "returned a level of 17 numbers: must be 1 to 16"),
        ("rest", "returned a rest of 18 numbers: must be at most 16"),
        ("other", "no rank"),
        ("panics", "panic: out of ranks"),
    ] {
        let answer = queue.queue_sort(request(&["one", name, "parts"])).await.unwrap().into_inner();
        let codes: Vec<_> = answer.statuses.iter().map(|status| status.code()).collect();
        assert_eq!(codes, [Code::Success, Code::Error, Code::Success]);
        assert_eq!(answer.statuses[1].messages, [format!("plugin Everywhere: QueueSort: sort_key: {problem}")]);
        assert_eq!((answer.keys[0].level.as_slice(), answer.keys[2].level.len()), ([3].as_slice(), 2));
    }
}

/// Orders nothing itself.
struct Gate;

impl Plugin for Gate {}

#[tokio::test]
async fn a_plugin_sorts_by_priority_unless_it_has_a_key_and_not_at_all_without_the_point() {
    let request = v1::QueueSortRequest {
        pods: vec![v1::Pod { spec: Some(v1::PodSpec { priority: Some(7), ..Default::default() }), ..Default::default() }],
        ..Default::default()
    };
    let (channel, _stop) = served(Info::new("Gate", [Point::QueueSort]), Gate).await;
    let keys = QueueServiceClient::new(channel).queue_sort(request.clone()).await.unwrap().into_inner().keys;
    assert_eq!(keys, [v1::SortKey { level: vec![-7], rest: vec![] }]);
    let (channel, _stop) = served(Info::new("Gate", [Point::PreEnqueue]), Gate).await;
    let error = QueueServiceClient::new(channel).queue_sort(request).await.unwrap_err();
    assert_eq!((error.code(), error.message()), (tonic::Code::Unimplemented, "plugin Gate has no Point::QueueSort"));
}

#[tokio::test]
async fn pre_filter_narrows_and_its_state_comes_back_to_filter() {
    let (channel, _stop) = served(info(), Everywhere::default()).await;
    let mut filter = FilterPluginClient::new(channel);
    let prepare = |profile: &str| v1::PreFilterRequest { cycle: in_profile(profile) };
    let refused = filter.pre_filter(prepare("refused")).await.unwrap().into_inner().status.unwrap();
    assert_eq!((refused.code(), refused.reasons[0].code.as_str()), (Code::UnschedulableAndUnresolvable, "notHere"));
    assert_eq!(refused.reasons[0].parameters["zone"], "west");
    assert_eq!(code(&filter.pre_filter(prepare("skipped")).await.unwrap().into_inner().status), Code::Skip);
    let prepared = filter.pre_filter(prepare("p")).await.unwrap().into_inner();
    assert_eq!((prepared.narrowed, prepared.node_names), (true, vec!["a".to_string()]));
    let request = v1::FilterRequest {
        cycle: cycle(prepared.state), count: 9, nodes: nodes(&["a", "bad", "small", "bad"]),
    };
    let columns = filter.filter(request).await.unwrap().into_inner().columns.unwrap();
    assert_eq!((columns.status_index, columns.capacity), (vec![0, 1, 0, 1], vec![UNLIMITED, 0, 7, 0]));
    assert_eq!((columns.statuses.len(), columns.size, columns.generation), (1, 4, 3));
    let wrong = v1::FilterRequest { cycle: cycle(Vec::new()), count: 1, nodes: nodes(&["none"]) };
    let columns = filter.filter(wrong).await.unwrap().into_inner().columns.unwrap();
    assert_eq!(columns.statuses[0].messages, ["filter returned Room(0): must be above 0"]);
}

#[tokio::test]
async fn dry_runs_have_the_pods_that_go_and_post_filter_makes_room() {
    let (channel, _stop) = served(info(), Everywhere::default()).await;
    let mut filter = FilterPluginClient::new(channel);
    let node = Some(v1::NodeView { name: "small".into(), ..Default::default() });
    let runs = vec![v1::DryRun { node, removed_pods: vec![pod("victim")], ..Default::default() }];
    let request = v1::FilterDryRunRequest { cycle: cycle(Vec::new()), runs };
    assert_eq!(filter.filter_dry_run(request).await.unwrap().into_inner().columns.unwrap().capacity, [3]);
    let request = |size| {
        let columns = Some(v1::NodeColumns { size, ..Default::default() });
        v1::PostFilterRequest { cycle: cycle(Vec::new()), columns, ..Default::default() }
    };
    let found = filter.post_filter(request(1)).await.unwrap().into_inner();
    assert_eq!((code(&found.status), found.nominated_node.as_str()), (Code::Success, "a"));
    assert_eq!(code(&filter.post_filter(request(0)).await.unwrap().into_inner().status), Code::Unschedulable);
}

#[tokio::test]
async fn scores_are_prepared_given_and_normalised() {
    let (channel, _stop) = served(info(), Everywhere::default()).await;
    let mut score = ScorePluginClient::new(channel);
    let prepare = |profile: &str| v1::PreScoreRequest { cycle: in_profile(profile), nodes: nodes(&["a", "bb"]) };
    assert_eq!(code(&score.pre_score(prepare("skipped")).await.unwrap().into_inner().status), Code::Skip);
    let wrong = score.pre_score(prepare("refused")).await.unwrap().into_inner().status.unwrap();
    assert_eq!(wrong.code(), Code::Error);
    assert!(wrong.messages[0].starts_with("pre_score returned a refusal"), "{wrong:?}");
    let state = score.pre_score(prepare("p")).await.unwrap().into_inner().state;
    let request = v1::ScoreRequest { cycle: cycle(state), nodes: nodes(&["a", "bb"]) };
    let scores = score.score(request).await.unwrap().into_inner().scores;
    assert_eq!(scores, [2, 4]);
    let request = v1::NormalizeScoreRequest { cycle: cycle(Vec::new()), nodes: nodes(&["a", "bb"]), scores };
    assert_eq!(score.normalize_score(request).await.unwrap().into_inner().scores, [20, 40]);
    let request = v1::NormalizeScoreRequest { cycle: cycle(Vec::new()), nodes: nodes(&["a"]), scores: vec![11] };
    let beyond = score.normalize_score(request).await.unwrap().into_inner().status.unwrap();
    assert!(beyond.messages[0].contains("110"), "{beyond:?}");
}

#[tokio::test]
async fn reserve_answers_for_each_placement_and_unreserve_gets_each() {
    let plugin = Everywhere::default();
    let (channel, _stop) = served(info(), plugin.clone()).await;
    let mut filter = FilterPluginClient::new(channel);
    let request = v1::ReserveRequest { cycle: cycle(Vec::new()), placements: placements(&["one", "late"]) };
    let reservations = filter.reserve(request).await.unwrap().into_inner().reservations;
    assert_eq!((code(&reservations[0].status), reservations[0].state.as_slice()), (Code::Success, &b"\"one\""[..]));
    let refused = reservations[1].status.as_ref().unwrap();
    assert_eq!((refused.code(), refused.plugin.as_str()), (Code::Pending, "Everywhere"));
    assert_eq!(refused.reasons[0].parameters["product"], "cad");
    let request = v1::UnreserveRequest { cycle: cycle(Vec::new()), placements: placements(&["late", "one"]) };
    filter.unreserve(request).await.unwrap();
    assert_eq!(*plugin.released.lock().unwrap(), ["late", "one"]);
}

#[tokio::test]
async fn binding_waits_skips_and_streams_its_results() {
    let plugin = Everywhere::default();
    let (channel, _stop) = served(info(), plugin.clone()).await;
    let mut bind = BindPluginClient::new(channel);
    let of = |names: &[&str]| items(names, b"");
    let request = v1::PermitRequest { cycle: cycle(Vec::new()), items: of(&["a", "waiting", "refused", "endless", "patient"]) };
    let results = bind.permit(request).await.unwrap().into_inner().results;
    let codes: Vec<_> = results.iter().map(|result| code(&result.status)).collect();
    assert_eq!(codes, [Code::Success, Code::Wait, Code::Unschedulable, Code::Error, Code::Wait]);
    assert_eq!(results[1].status.as_ref().map(|status| status.messages.as_slice()), Some(["no quota left".to_string()].as_slice()));
    assert_eq!(results[4].timeout.as_ref().map(|timeout| timeout.seconds), Some(LONGEST_SECONDS));
    assert_eq!(results[1].timeout.as_ref().map(|timeout| (timeout.seconds, timeout.nanos)), Some((1, 500_000_000)));
    let request = v1::PreBindPreFlightRequest { cycle: cycle(Vec::new()), items: of(&["a", "idle"]) };
    let statuses = bind.pre_bind_pre_flight(request).await.unwrap().into_inner().statuses;
    assert_eq!([statuses[0].code(), statuses[1].code()], [Code::Success, Code::Skip]);
    for (state, expected) in [("\"claim\"", Code::Wait), ("\"idle\"", Code::Skip), ("\"x\"", Code::Success), ("7", Code::Error), ("\"nothing\"", Code::Error)] {
        let request = v1::PreBindRequest { cycle: cycle(Vec::new()), items: items(&["a"], state.as_bytes()) };
        let result = bind.pre_bind(request).await.unwrap().into_inner().results.remove(0);
        assert_eq!((code(&result.status), result.wait_for.len()), (expected, usize::from(expected == Code::Wait)), "{state}");
    }
    let request = v1::BindRequest { cycle: cycle(Vec::new()), items: of(&["a", "foreign", "refused"]) };
    let (mut stream, mut results) = (bind.bind(request).await.unwrap().into_inner(), Vec::new());
    while let Some(response) = stream.message().await.unwrap() {
        results.extend(response.results.into_iter().map(|result| (result.index, result.status.unwrap().code())));
    }
    assert_eq!(results, [(0, Code::Success), (1, Code::Skip), (2, Code::Error)]);
    bind.post_bind(v1::PostBindRequest { cycle: cycle(Vec::new()), items: of(&["a"]) }).await.unwrap();
    assert_eq!(*plugin.bound.lock().unwrap(), ["a"]);
}
