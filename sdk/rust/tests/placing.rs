//! PlacementFeasible over gRPC: what the method gets of a group of pods, and what the scheduler gets.

mod served;

use std::sync::{Arc, Mutex};

use served::{cycle, served};
use trireme_sdk::v1::placement_feasible_request::Group;
use trireme_sdk::v1::plugin_service_client::PluginServiceClient;
use trireme_sdk::v1::pod_group_plugin_client::PodGroupPluginClient;
use trireme_sdk::v1::{self, Code};
use trireme_sdk::{Call, Feasible, Info, PlacementTrial, Plugin, Point, Status, async_trait};

/// Answers by the placement's name, and takes down what it got.
#[derive(Clone, Default)]
struct Placing {
    seen: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Plugin for Placing {
    async fn placement_feasible(&self, call: &Call, trial: &PlacementTrial<'_>) -> Result<Feasible, Status> {
        let kind = if trial.composite_pod_group.is_some() { "groups" } else { "pods" };
        let group = trial.pod_group.and_then(|group| group.metadata.as_ref());
        let group = group.or(trial.composite_pod_group.and_then(|group| group.metadata.as_ref()));
        let of_pod = |each: &v1::TriedPod| {
            let pod = each.pod.clone().unwrap_or_default();
            let (metadata, spec) = (pod.metadata.unwrap_or_default(), pod.spec.unwrap_or_default());
            format!("{}{}@{}", metadata.name, spec.scheduler_name, each.node_name)
        };
        let tried: Vec<String> = trial.tried.iter().map(of_pod).collect();
        self.seen.lock().unwrap().push(format!(
            "{} {kind} {} {} {:?} {tried:?} {} {} {}",
            call.profile,
            group.unwrap().name,
            trial.min_count,
            trial.node_names,
            trial.remaining,
            trial.scheduled,
            trial.unschedulable
        ));
        match trial.placement {
            "refused" => Err(Status::unschedulable("no licence")),
            "fails" => Err(Status::error("down")),
            "unresolvable" => Err(Status::unresolvable("never")),
            "silent" => Ok(Feasible::MoreMembers(String::new())),
            "panics" => panic!("out of racks"),
            _ if trial.remaining > 0 => Ok(Feasible::MoreMembers("one more".into())),
            _ => Ok(Feasible::Fits),
        }
    }
}

fn metadata() -> Option<v1::ObjectMeta> {
    Some(v1::ObjectMeta { name: "gang".into(), ..Default::default() })
}

/// A gang of two whose first pod has a node, at these steps.
fn request(placement: &str, steps: &[u32]) -> v1::PlacementFeasibleRequest {
    let named = |name: &str| v1::Pod {
        metadata: Some(v1::ObjectMeta { name: name.into(), ..Default::default() }),
        ..Default::default()
    };
    let tried = [("w0", "a", 0), ("w1", "", 1)].map(|(name, node, fields)| v1::TriedPod {
        pod: Some(named(name)),
        node_name: node.into(),
        fields,
    });
    let pod_fields = ["-x", "-y"].map(|name| v1::Pod {
        spec: Some(v1::PodSpec { scheduler_name: name.into(), ..Default::default() }),
        ..Default::default()
    });
    let steps = steps.iter().map(|step| v1::PlacementStep {
        tried: *step,
        remaining: 2 - step,
        scheduled: *step.min(&1),
        unschedulable: step / 2,
    });
    v1::PlacementFeasibleRequest {
        cycle: cycle(Vec::new()),
        group: Some(Group::PodGroup(v1::PodGroup { metadata: metadata(), ..Default::default() })),
        min_count: 2,
        placement: placement.into(),
        node_names: vec!["a".into(), "b".into()],
        tried: tried.into(),
        steps: steps.collect(),
        pod_fields: pod_fields.into(),
    }
}

/// If this fails, a plugin decides about another group, or about pods that were not tried yet.
#[tokio::test]
async fn each_step_has_the_group_and_the_pods_tried_by_then() {
    let plugin = Placing::default();
    let (channel, _stop) = served(Info::new("P", [Point::PlacementFeasible]), plugin.clone()).await;
    let mut client = PodGroupPluginClient::new(channel);
    let statuses = client.placement_feasible(request("rack", &[1, 2])).await.unwrap().into_inner().statuses;
    assert_eq!(statuses.iter().map(|each| each.code()).collect::<Vec<_>>(), [Code::Wait, Code::Success]);
    assert_eq!((statuses[0].messages.as_slice(), statuses[0].plugin.as_str()), (["one more".to_string()].as_slice(), "P"));
    let group = v1::CompositePodGroup { metadata: metadata(), ..Default::default() };
    let composite = v1::PlacementFeasibleRequest {
        group: Some(Group::CompositePodGroup(group)),
        ..request("rack", &[0])
    };
    client.placement_feasible(composite).await.unwrap();
    let nodes = r#"["a", "b"]"#;
    assert_eq!(
        *plugin.seen.lock().unwrap(),
        [
            format!(r#"default-scheduler pods gang 2 {nodes} ["w0-x@a"] 1 1 0"#),
            format!(r#"default-scheduler pods gang 2 {nodes} ["w0-x@a", "w1-y@"] 0 1 1"#),
            format!("default-scheduler groups gang 2 {nodes} [] 2 0 0"),
        ]
    );
}

/// If this fails, a plugin is called about steps after the one that it refused, or answers what the scheduler rejects.
#[tokio::test]
async fn the_first_refusal_or_error_is_the_last_status() {
    for (placement, expected, message) in [
        ("refused", Code::Unschedulable, "no licence"),
        ("fails", Code::Error, "down"),
        ("unresolvable", Code::Error, "placement_feasible refuses by Status::unschedulable alone: never"),
        ("silent", Code::Error, "Feasible::MoreMembers must say what is missing"),
    ] {
        let plugin = Placing::default();
        let (channel, _stop) = served(Info::new("P", [Point::PlacementFeasible]), plugin.clone()).await;
        let call = PodGroupPluginClient::new(channel).placement_feasible(request(placement, &[0, 1, 2])).await;
        let statuses = call.unwrap().into_inner().statuses;
        assert_eq!(statuses.iter().map(|each| each.code()).collect::<Vec<_>>(), [expected], "{placement}");
        assert_eq!(statuses[0].messages, [message]);
        assert_eq!(plugin.seen.lock().unwrap().len(), 1);
    }
}

/// If this fails, a panic ends the process, or an older scheduler rejects the plugin for a point that it does not know.
#[tokio::test]
async fn a_panic_is_an_error_and_the_point_is_for_schedulers_that_know_it() {
    let (channel, _stop) = served(Info::new("P", [Point::Filter, Point::PlacementFeasible]), Placing::default()).await;
    let failed = PodGroupPluginClient::new(channel.clone()).placement_feasible(request("panics", &[0])).await.unwrap_err();
    assert_eq!((failed.code(), failed.message()), (tonic::Code::Internal, "plugin P: PlacementFeasible: panic: out of racks"));
    for (features, points) in [(vec![], 1), (vec!["placement-feasible".to_string()], 2)] {
        let request = v1::GetPluginInfoRequest { features };
        let info = PluginServiceClient::new(channel.clone()).get_plugin_info(request).await.unwrap().into_inner();
        assert_eq!(info.plugins[0].extension_points.len(), points);
    }
    let (channel, _stop) = served(Info::new("P", [Point::Filter]), Placing::default()).await;
    let absent = PodGroupPluginClient::new(channel).placement_feasible(request("rack", &[0])).await.unwrap_err();
    assert_eq!(absent.code(), tonic::Code::Unimplemented);
}
