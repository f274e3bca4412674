//! A plugin whose PreBind waits for an object of the cluster that it follows.

mod served;

use std::time::Duration;

use served::{items, served};
use tokio_stream::StreamExt;
use trireme_sdk::v1::bind_plugin_client::BindPluginClient;
use trireme_sdk::v1::cluster_object::Object;
use trireme_sdk::v1::snapshot_follower_client::SnapshotFollowerClient;
use trireme_sdk::v1::{self, Code};
use trireme_sdk::{Call, Info, Item, NodeData, Plugin, Point, PreBind, PreBindWait, Status, async_trait};

/// Waits until the claim `cache` is bound, and counts how often it has looked.
struct Cache;

fn cache() -> v1::ObjectKey {
    v1::ObjectKey { kind: "persistent_volume_claim".into(), namespace: "shop".into(), name: "cache".into() }
}

#[async_trait]
impl Plugin for Cache {
    async fn pre_bind(&self, call: &Call, item: &Item<'_>) -> Result<PreBind, Status> {
        let cluster = call.cluster().ok_or_else(|| Status::error("needs Snapshot"))?;
        if let Some(Object::PersistentVolumeClaim(claim)) = cluster.object(&cache()) {
            if claim.spec.as_ref().is_some_and(|spec| !spec.volume_name.is_empty()) {
                return Ok(PreBind::Done);
            }
        }
        let looks: u32 = item.state()?.unwrap_or(0) + 1;
        let claims = cluster.objects("persistent_volume_claim").count();
        let wait = PreBindWait::new([cache()], Duration::MAX);
        Ok(wait.message(format!("look {looks}, {claims} claims")).state(&looks)?.into())
    }
}

fn claim(name: &str, volume: &str) -> v1::ClusterObject {
    let claim = v1::PersistentVolumeClaim {
        metadata: Some(v1::ObjectMeta { namespace: "shop".into(), name: name.into(), ..Default::default() }),
        spec: Some(v1::PersistentVolumeClaimSpec { volume_name: volume.into(), ..Default::default() }),
        ..Default::default()
    };
    v1::ClusterObject { object: Some(Object::PersistentVolumeClaim(claim)), ..Default::default() }
}

fn delta(from: u64, to: u64, objects: Vec<v1::ClusterObject>, removed_objects: Vec<v1::ObjectKey>) -> v1::SyncRequest {
    let delta = v1::Delta {
        from_generation: from, to_generation: to, reset: from == 0, objects, removed_objects, ..Default::default()
    };
    v1::SyncRequest { message: Some(v1::sync_request::Message::Delta(delta)), ..Default::default() }
}

#[tokio::test]
async fn pre_bind_reads_the_object_keeps_its_state_and_says_why_it_waits() {
    let info = Info::new("Cache", [Point::PreBind]).node_data(NodeData::Snapshot);
    let (channel, _stop) = served(info, Cache).await;
    let (deltas, sent) = tokio::sync::mpsc::channel(8);
    let hello = Some(v1::sync_request::Message::Hello(v1::Hello::default()));
    let hello = v1::SyncRequest { message: hello, ..Default::default() };
    deltas.send(hello).await.unwrap();
    let requests = tokio_stream::wrappers::ReceiverStream::new(sent);
    let mut follower = SnapshotFollowerClient::new(channel.clone());
    let mut acknowledged = follower.sync(requests).await.unwrap().into_inner();
    let mut bind = BindPluginClient::new(channel);
    let mut state = Vec::new();
    let other = v1::ObjectKey { name: "other".into(), ..cache() };
    for (sync, message) in [
        (delta(0, 1, vec![claim("cache", ""), claim("other", "")], vec![]), "look 1, 2 claims"),
        (delta(1, 2, vec![], vec![other]), "look 2, 1 claims"),
        (delta(2, 3, vec![], vec![cache()]), "look 3, 0 claims"),
        (delta(3, 4, vec![claim("cache", "volume")], vec![]), ""),
    ] {
        deltas.send(sync).await.unwrap();
        let generation = acknowledged.next().await.unwrap().unwrap().applied_generation;
        let cycle = Some(v1::Cycle { generation, ..Default::default() });
        let request = v1::PreBindRequest { cycle, items: items(&["a"], &state) };
        let result = bind.pre_bind(request).await.unwrap().into_inner().results.remove(0);
        let status = result.status.unwrap();
        if message.is_empty() {
            assert_eq!(status.code(), Code::Success, "{status:?}");
            continue;
        }
        assert_eq!((status.code(), status.messages), (Code::Wait, vec![message.to_string()]));
        assert_eq!((result.wait_for, result.timeout.unwrap().seconds), (vec![cache()], 315_576_000_000));
        state = result.state;
    }
}
