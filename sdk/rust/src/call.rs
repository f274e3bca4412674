// Also change: internal/trireme/sdk/calls.py (which names the other languages' files).

//! The arguments of a plugin's methods.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use serde::de::DeserializeOwned;

use crate::cluster::Cluster;
use crate::results::Status;
use crate::v1;

static NO_LABELS: LazyLock<HashMap<String, String>> = LazyLock::new(HashMap::new);

/// One call about one class of pods.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// The fields of the pod that the plugin's `pod_fields` name.
    pub pod: v1::Pod,
    /// The profile that schedules it.
    pub profile: String,
    /// How many pods of the class wait: room need not be counted beyond it.
    pub count: u32,
    /// A dry run assumes that these pods are gone from the node. `Node::pods` is without them already.
    pub removed_pods: Vec<v1::Pod>,
    /// A dry run assumes that these pods are on the node. `Node::pods` has them already. For score they are copies of the
    /// pod where the plugin does not follow the cluster, see `Info::score_copies`.
    pub added_pods: Vec<v1::Pod>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) trace_parent: Option<String>,
    pub(crate) state: Vec<u8>,
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// Set once the plugin has got the cluster; None: it may.
    pub(crate) cluster_use: Option<Arc<AtomicBool>>,
    pub(crate) generation: u64,
}

impl Call {
    /// A call about one pod, for tests.
    pub fn new(pod: v1::Pod) -> Self {
        Self { pod, count: 1, ..Default::default() }
    }

    /// The state that the plugin returned earlier in the cycle; None: it returned none.
    pub fn state<T: DeserializeOwned>(&self) -> Result<Option<T>, Status> {
        read(&self.state)
    }

    /// The label of the pod.
    pub fn label(&self, name: &str) -> Option<&str> {
        label(&self.pod, name)
    }

    /// The whole cluster, with Snapshot; else None. It does not change during the call, and never has copies of the pod.
    pub fn cluster(&self) -> Option<&Cluster> {
        if let Some(used) = &self.cluster_use {
            used.store(true, Ordering::Relaxed);
        }
        self.cluster.as_deref()
    }

    /// When the caller gives up: an async method then ends at its next `await`. None: it did not say.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The W3C trace context of the caller (`traceparent`), for spans of the plugin to join; None: it does not trace.
    pub fn trace_parent(&self) -> Option<&str> {
        self.trace_parent.as_deref()
    }
}

fn label<'a>(pod: &'a v1::Pod, name: &str) -> Option<&'a str> {
    pod.metadata.as_ref()?.labels.get(name).map(String::as_str)
}

fn read<T: DeserializeOwned>(state: &[u8]) -> Result<Option<T>, Status> {
    if state.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(state)
        .map(Some)
        .map_err(|error| Status::error(format!("state is not what this plugin returned: {error}")))
}

/// A pod on a node, bound or about to be.
#[derive(Clone, Debug)]
pub struct PlacedPod {
    /// Its UID; empty for a pod that a dry run assumes.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// What all pods of its class share.
    pub pod: Arc<v1::Pod>,
    /// Whether it is being deleted.
    pub terminating: bool,
}

impl PlacedPod {
    /// The label of the pod.
    pub fn label(&self, name: &str) -> Option<&str> {
        label(&self.pod, name)
    }
}

/// One node.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its message, with Messages and Snapshot.
    pub message: Option<&'a v1::Node>,
    /// The object as the API server sent it, with Json.
    pub json: &'a [u8],
    /// The pods on it, with Snapshot.
    pub pods: Vec<&'a PlacedPod>,
}

impl Node<'_> {
    /// Its labels, with Messages and Snapshot.
    pub fn labels(&self) -> &HashMap<String, String> {
        self.message.and_then(|node| node.metadata.as_ref()).map_or(&NO_LABELS, |metadata| &metadata.labels)
    }
}

/// One pod on its node, for Reserve.
#[derive(Clone, Debug)]
pub struct Placement<'a> {
    /// Which pod.
    pub pod: &'a v1::PodIdentity,
    /// The node; without message and pods unless the plugin follows the cluster (Snapshot).
    pub node: Node<'a>,
}

/// One pod and its node, for the steps of binding.
#[derive(Clone, Debug)]
pub struct Item<'a> {
    /// Which pod.
    pub pod: &'a v1::PodIdentity,
    /// The name of the node.
    pub node_name: &'a str,
    pub(crate) state: &'a [u8],
}

impl Item<'_> {
    /// The state that Reserve, or an earlier PreBind that waits, returned for the pod; None: it returned none.
    pub fn state<T: DeserializeOwned>(&self) -> Result<Option<T>, Status> {
        read(self.state)
    }
}

/// A group of pods that is being tried in a placement, and how far the trial has come.
#[derive(Clone, Debug)]
pub struct PlacementTrial<'a> {
    /// The group's metadata and spec; None: it is made of groups.
    pub pod_group: Option<&'a v1::PodGroup>,
    /// The same of a group of groups; None: it is made of pods.
    pub composite_pod_group: Option<&'a v1::CompositePodGroup>,
    /// How many pods, or groups, must fit by the group's policy.
    pub min_count: u32,
    /// The placement's name: of a topology domain its label's value. Empty: the group is tried on all nodes.
    pub placement: &'a str,
    /// The placement's nodes; empty: all nodes.
    pub node_names: &'a [String],
    /// The pods that were tried so far, in order, each with the node that it would get, empty where no node of the
    /// placement takes it; of a group of groups those that fit in their groups.
    pub tried: &'a [v1::TriedPod],
    /// Pods, or groups, that were not tried yet.
    pub remaining: u32,
    /// Those that fit; with the pods of the group that had a node before.
    pub scheduled: u32,
    /// Those that do not fit.
    pub unschedulable: u32,
}

impl<'a> PlacementTrial<'a> {
    /// The trial at a step; `tried` are the pods that `tried_pods` returns.
    pub(crate) fn new(
        request: &'a v1::PlacementFeasibleRequest,
        tried: &'a [v1::TriedPod],
        step: &v1::PlacementStep,
    ) -> Self {
        use v1::placement_feasible_request::Group;
        let (pod_group, composite_pod_group) = match &request.group {
            Some(Group::PodGroup(group)) => (Some(group), None),
            Some(Group::CompositePodGroup(group)) => (None, Some(group)),
            None => (None, None),
        };
        Self {
            pod_group,
            composite_pod_group,
            min_count: request.min_count,
            placement: &request.placement,
            node_names: &request.node_names,
            tried: &tried[..tried.len().min(step.tried as usize)],
            remaining: step.remaining,
            scheduled: step.scheduled,
            unschedulable: step.unschedulable,
        }
    }
}

/// The pods that were tried with their fields, which several share.
pub(crate) fn tried_pods(request: &v1::PlacementFeasibleRequest) -> Vec<v1::TriedPod> {
    let with_fields = |tried: &v1::TriedPod| {
        let mut pod = request.pod_fields.get(tried.fields as usize).cloned().unwrap_or_default();
        if let Some(identity) = tried.pod.as_ref().and_then(|pod| pod.metadata.as_ref()) {
            let metadata = pod.metadata.get_or_insert_default();
            metadata.namespace = identity.namespace.clone();
            metadata.name = identity.name.clone();
            metadata.uid = identity.uid.clone();
        }
        v1::TriedPod { pod: Some(pod), node_name: tried.node_name.clone(), fields: 0 }
    };
    request.tried.iter().map(with_fields).collect()
}
