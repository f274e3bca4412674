// Also change: internal/trireme/sdk/cluster_state.py (which names the other languages' files).

//! The objects of the cluster beside nodes and pods, by kind, namespace and name.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::v1;
pub(crate) use crate::v1::cluster_object::Object;

/// Writes the name of each kind, and where its metadata is.
macro_rules! kinds {
    ($($variant:ident => $name:literal,)*) => {
        // Also change: internal/trireme/cache/object_kinds.py (the fields of ClusterObject).
        fn kind(object: &Object) -> &'static str {
            match object { $(Object::$variant(_) => $name,)* }
        }

        fn metadata(object: &Object) -> Option<&v1::ObjectMeta> {
            match object { $(Object::$variant(of) => of.metadata.as_ref(),)* }
        }
    };
}

kinds! {
    Namespace => "namespace",
    Service => "service",
    ReplicationController => "replication_controller",
    ReplicaSet => "replica_set",
    StatefulSet => "stateful_set",
    PodDisruptionBudget => "pod_disruption_budget",
    PersistentVolume => "persistent_volume",
    PersistentVolumeClaim => "persistent_volume_claim",
    StorageClass => "storage_class",
    CsiNode => "csi_node",
    CsiDriver => "csi_driver",
    CsiStorageCapacity => "csi_storage_capacity",
    VolumeAttachment => "volume_attachment",
    ResourceSlice => "resource_slice",
    DeviceClass => "device_class",
    ResourceClaim => "resource_claim",
    DeviceTaintRule => "device_taint_rule",
    PodGroup => "pod_group",
    CompositePodGroup => "composite_pod_group",
}

type ByName = BTreeMap<(String, String), Arc<Object>>;

/// A change copies the names of its kind, where a call still has them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects(HashMap<String, Arc<ByName>>);

impl Objects {
    /// Adds and changes these; then removes those. An object of a kind that a newer scheduler has is left out.
    pub(crate) fn apply(&mut self, changed: Vec<v1::ClusterObject>, removed: &[v1::ObjectKey]) {
        for object in changed.into_iter().filter_map(|of| of.object) {
            let key = metadata(&object).map(|of| (of.namespace.clone(), of.name.clone())).unwrap_or_default();
            let names = self.0.entry(kind(&object).into()).or_default();
            Arc::make_mut(names).insert(key, Arc::new(object));
        }
        for key in removed {
            if let Some(names) = self.0.get_mut(&key.kind) {
                Arc::make_mut(names).remove(&(key.namespace.clone(), key.name.clone()));
            }
        }
    }

    pub(crate) fn of(&self, kind: &str) -> impl Iterator<Item = &Object> {
        self.0.get(kind).into_iter().flat_map(|names| names.values().map(Arc::as_ref))
    }

    pub(crate) fn get(&self, key: &v1::ObjectKey) -> Option<&Object> {
        self.0.get(&key.kind)?.get(&(key.namespace.clone(), key.name.clone())).map(Arc::as_ref)
    }
}
