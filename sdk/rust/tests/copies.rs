//! Score of nodes with copies of the pod on them.

#[allow(dead_code)] // the helpers of all tests
mod served;

use served::{code, served};
use tokio_stream::StreamExt;
use trireme_sdk::v1::score_plugin_client::ScorePluginClient;
use trireme_sdk::v1::snapshot_follower_client::SnapshotFollowerClient;
use trireme_sdk::v1::{self, Code};
use trireme_sdk::{Call, Dependency, Info, Node, NodeData, Plugin, Point, Status};

/// Scores by the pods of the node: those that it is given, or those that the cluster has.
struct Crowd {
    reads_cluster: bool,
}

impl Plugin for Crowd {
    fn score(&self, call: &Call, node: &Node) -> Result<i64, Status> {
        let in_cluster = || call.cluster().and_then(|cluster| cluster.named(node.name)).map_or(0, |found| found.pods.len());
        let pods = if self.reads_cluster { in_cluster() } else { node.pods.len() };
        Ok(100 - 10 * (pods + call.added_pods.len()) as i64)
    }
}

fn sync(message: v1::sync_request::Message) -> v1::SyncRequest {
    v1::SyncRequest { message: Some(message), ..Default::default() }
}

fn info() -> Info {
    Info::new("Crowd", [Point::Score]).depends_on(Dependency::NodePods).node_data(NodeData::Snapshot)
}

/// The plugin's answer about three copies on a node without pods.
async fn three_copies(info: Info, reads_cluster: bool) -> v1::ScoreCopiesResponse {
    let (channel, _stop) = served(info, Crowd { reads_cluster }).await;
    let metadata = Some(v1::ObjectMeta { name: "a".into(), ..Default::default() });
    let delta = v1::Delta {
        reset: true,
        to_generation: 1,
        nodes: vec![v1::NodeEntry { slot: 0, node: Some(v1::Node { metadata, ..Default::default() }), ..Default::default() }],
        classes: vec![v1::PodClass { id: 1, pod: Some(v1::Pod::default()), ..Default::default() }],
        ..Default::default()
    };
    let (deltas, sent) = tokio::sync::mpsc::channel(8);
    deltas.send(sync(v1::sync_request::Message::Hello(v1::Hello::default()))).await.unwrap();
    deltas.send(sync(v1::sync_request::Message::Delta(delta))).await.unwrap();
    let requests = tokio_stream::wrappers::ReceiverStream::new(sent);
    let mut acknowledged = SnapshotFollowerClient::new(channel.clone()).sync(requests).await.unwrap().into_inner();
    acknowledged.next().await.unwrap().unwrap();
    let request = v1::ScoreCopiesRequest {
        cycle: Some(v1::Cycle { generation: 1, pod_class: 1, ..Default::default() }),
        nodes: Some(v1::NodeSelection { slots: vec![0], ..Default::default() }),
        copies: 3,
    };
    ScorePluginClient::new(channel).score_copies(request).await.unwrap().into_inner()
}

/// A score that counts the pods of the node and the added ones would count each copy twice.
#[tokio::test]
async fn copies_are_among_the_pods_of_the_node_and_nowhere_else() {
    assert_eq!(three_copies(info(), false).await.scores, [90, 80, 70]);
}

/// The cluster has no copies, so all pods of a batch would pile up on the best node, and nothing would say so.
#[tokio::test]
async fn a_score_that_gets_the_cluster_answers_no_copies_unless_its_author_says_so() {
    let answer = three_copies(info(), true).await;
    assert_eq!((code(&answer.status), answer.scores.len()), (Code::Error, 0));
    let text = answer.status.unwrap().messages.concat();
    assert!(text.contains("Call::cluster") && text.contains("Info::score_copies"), "{text}");
    assert_eq!(three_copies(info().score_copies(true), true).await.scores, [100, 100, 100]);
}
