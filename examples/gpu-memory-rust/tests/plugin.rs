//! The plugin's methods, as the SDK calls them.

use std::collections::HashMap;
use std::sync::Arc;

use gpu_memory::{Arguments, GpuMemory};
use trireme_sdk::{Call, Node, PlacedPod, Placement, Plugin, Verdict, v1};

fn metadata(name: &str, labels: &[(&str, &str)]) -> Option<v1::ObjectMeta> {
    let labels: HashMap<_, _> = labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    Some(v1::ObjectMeta { name: name.into(), labels, ..Default::default() })
}

fn pod(memory: Option<&str>) -> v1::Pod {
    let labels: Vec<_> = memory.iter().map(|memory| ("example.com/model-memory", *memory)).collect();
    v1::Pod { metadata: metadata("", &labels), ..Default::default() }
}

fn call(memory: Option<&str>) -> Call {
    Call::new(pod(memory))
}

fn placed(uid: &str, memory: &str) -> PlacedPod {
    PlacedPod { uid: uid.into(), name: uid.into(), pod: Arc::new(pod(Some(memory))), terminating: false }
}

fn plugin() -> GpuMemory {
    GpuMemory::with(Arguments::default()).unwrap()
}

fn message(gpus: &str, memory: &str) -> v1::Node {
    let labels = [("example.com/gpus", gpus), ("example.com/gpu-memory", memory)];
    v1::Node { metadata: metadata("n", &labels), ..Default::default() }
}

fn on<'a>(message: &'a v1::Node, pods: Vec<&'a PlacedPod>) -> Node<'a> {
    Node { name: "n", message: Some(message), json: &[], pods }
}

/// A node that takes a model that fits on none of its GPUs has a pod that fails at its start.
#[test]
fn filter_counts_what_fits_on_single_gpus() {
    let (message, taken) = (message("2", "80Gi"), placed("a", "60Gi"));
    let room = |memory| plugin().filter(&call(Some(memory)), &on(&message, vec![&taken]));
    assert_eq!(room("20Gi"), Verdict::Room(1 + 4));
    assert_eq!(room("30Gi"), Verdict::Room(2));
    let Verdict::Refused(status) = room("81Gi") else { panic!("a model that fits nowhere passes") };
    assert_eq!(status.message(), "node(s) had no GPU with enough free memory");
    assert!(matches!(room("much"), Verdict::Refused(_)));
    assert_eq!(plugin().filter(&call(None), &on(&message, vec![])), Verdict::Pass);
    let bare = v1::Node::default();
    assert!(matches!(plugin().filter(&call(Some("1Gi")), &on(&bare, vec![])), Verdict::Refused(_)));
}

/// A score that does not prefer the tighter fit leaves no GPU whole for large models.
#[test]
fn score_prefers_what_leaves_least_over() {
    let (message, taken) = (message("1", "80Gi"), placed("a", "60Gi"));
    let score = |pods| plugin().score(&call(Some("20Gi")), &on(&message, pods)).unwrap();
    assert_eq!((score(vec![]), score(vec![&taken])), (25, 100));
}

/// Two models on one GPU's memory end with one of them out of memory.
#[tokio::test]
async fn reserve_gives_each_pod_a_gpu_and_unreserve_takes_it_back() {
    let (plugin, message) = (plugin(), message("2", "80Gi"));
    let pods = [placed("a", "50Gi"), placed("b", "50Gi"), placed("c", "50Gi")];
    let identity = |uid: &str| v1::PodIdentity { uid: uid.into(), ..Default::default() };
    let (a, b, c) = (identity("a"), identity("b"), identity("c"));
    let call = call(Some("50Gi"));
    let at = |pod, on_it: usize| Placement { pod, node: on(&message, pods[..on_it].iter().collect()) };
    // Those before a pod of the same batch are not on the node yet; a repeated call reserves once.
    for (placement, fits) in [(at(&a, 0), true), (at(&b, 0), true), (at(&b, 2), true), (at(&c, 0), false)] {
        assert_eq!(plugin.reserve(&call, &placement).await.is_ok(), fits, "{}", placement.pod.uid);
    }
    assert!(matches!(plugin.filter(&call, &on(&message, vec![])), Verdict::Refused(_)));
    plugin.unreserve(&call, &at(&b, 0)).await;
    assert!(plugin.reserve(&call, &at(&c, 0)).await.is_ok());
    // Pods that were there and are not any more have left their GPUs.
    assert!(matches!(plugin.filter(&call, &on(&message, vec![&pods[0], &pods[2]])), Verdict::Refused(_)));
    assert_eq!(plugin.filter(&call, &on(&message, vec![&pods[2]])), Verdict::Room(1));
}

/// A mistake in the arguments must be seen at the start.
#[test]
fn wrong_arguments_are_refused() {
    assert!(GpuMemory::with(Arguments { reserve_per_gpu: "some".into() }).is_err());
}
