//! GPU bin-packing by model memory: several models share a GPU, and small ones fill what large ones leave.
//!
//! Nodes have the labels `example.com/gpus` (how many) and `example.com/gpu-memory` (of each, e.g. `80Gi`), pods the
//! label `example.com/model-memory`. The plugin follows the cluster, so it knows the pods on each node; which GPU of the
//! node a pod has, it decides at Reserve.

pub mod packing;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use trireme_sdk::{
    ArgumentErrors, Call, Configuration, Dependency, Event, Info, Node, NodeData, Placement, Plugin, Point, Ready, Status,
    Verdict, async_trait,
};

use packing::{Gpus, Mebibytes, pack, parse};

const GPUS: &str = "example.com/gpus";
const GPU_MEMORY: &str = "example.com/gpu-memory";
const MODEL_MEMORY: &str = "example.com/model-memory";

/// The args of a profile's pluginConfig.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Arguments {
    /// What each GPU keeps free for its driver and contexts, e.g. `512Mi`.
    pub reserve_per_gpu: String,
}

impl Default for Arguments {
    fn default() -> Self {
        Self { reserve_per_gpu: "0Mi".into() }
    }
}

/// What Reserve hands to PreBind, for plugins that tell the pod its GPU.
#[derive(Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct Assigned {
    /// The GPU's number on the node.
    pub gpu: usize,
}

/// A pod's GPU, as Reserve decided.
#[derive(Clone, Debug)]
struct Reserved {
    node: String,
    gpu: usize,
    model: Mebibytes,
    /// The pod has been on its node: once it is not there any more, it is gone.
    seen: bool,
}

type Reservations = HashMap<String, Reserved>;

/// The plugin.
pub struct GpuMemory {
    reserve: Mebibytes,
    /// By UID. After a restart those before it are unknown, and are packed anew.
    reservations: Mutex<Reservations>,
}

impl GpuMemory {
    /// The plugin's description.
    pub fn info() -> Info {
        Info::new("GpuMemory", [Point::Filter, Point::Score, Point::Reserve])
            .version(env!("CARGO_PKG_VERSION"))
            .depends_on(Dependency::NodePods)
            .node_data(NodeData::Snapshot)
            .pod_fields(["metadata.labels['example.com/model-memory']"])
            .events([Event::new("Node", ["Add", "UpdateNodeLabel"]), Event::new("AssignedPod", ["Delete"])])
    }

    /// The plugin for a profile's arguments.
    pub fn new(configuration: Configuration) -> Result<Self, ArgumentErrors> {
        Self::with(configuration.args()?)
    }

    /// The plugin with these arguments.
    pub fn with(arguments: Arguments) -> Result<Self, ArgumentErrors> {
        let wrong = || ArgumentErrors::of("reservePerGpu", "must be an amount of memory, e.g. 512Mi");
        let reserve = parse(&arguments.reserve_per_gpu).ok_or_else(wrong)?;
        Ok(Self { reserve, reservations: Mutex::default() })
    }

    /// The memory of the pod's model: None where it needs no GPU, or a refusal where nobody can read it.
    fn model(&self, call: &Call) -> Result<Option<Mebibytes>, Status> {
        let Some(text) = call.label(MODEL_MEMORY) else { return Ok(None) };
        parse(text).map(Some).ok_or_else(|| {
            Status::unresolvable(format!("pod's label {MODEL_MEMORY} is no amount of memory"))
                .reason("unreadableModelMemory", [("value", text.to_string())])
        })
    }

    /// The node's GPUs with the models of the pods on it, and of those that are reserved and not there yet; None where it
    /// has none.
    fn gpus(&self, call: &Call, node: &Node, reservations: &mut Reservations) -> Option<Gpus> {
        let count = node.labels().get(GPUS)?.parse().ok().filter(|count| (1..=64).contains(count))?;
        let memory = parse(node.labels().get(GPU_MEMORY)?)?.checked_sub(self.reserve)?;
        let mut models: Vec<_> = node
            .pods
            .iter()
            .filter_map(|pod| Some((pod.uid.clone(), parse(pod.label(MODEL_MEMORY)?)?)))
            .collect();
        // A dry run only assumes that pods are gone.
        if call.removed_pods.is_empty() && call.added_pods.is_empty() {
            reservations.retain(|uid, reserved| {
                let here = reserved.node == node.name;
                let placed = here && node.pods.iter().any(|pod| pod.uid == *uid);
                let gone = here && reserved.seen && !placed;
                reserved.seen |= placed;
                !gone
            });
        }
        for (uid, reserved) in reservations.iter().filter(|(_, reserved)| reserved.node == node.name && !reserved.seen) {
            models.push((uid.clone(), reserved.model));
        }
        let known = reservations.iter().map(|(uid, reserved)| (uid.clone(), reserved.gpu)).collect();
        Some(pack(Gpus::new(count, memory), &models, &known))
    }

    fn reservations(&self) -> MutexGuard<'_, Reservations> {
        self.reservations.lock().expect("no panic while it is held")
    }
}

#[async_trait]
impl Plugin for GpuMemory {
    fn filter(&self, call: &Call, node: &Node) -> Verdict {
        let model = match self.model(call) {
            Ok(Some(model)) => model,
            Ok(None) => return Verdict::Pass,
            Err(status) => return status.into(),
        };
        let Some(gpus) = self.gpus(call, node, &mut self.reservations()) else {
            return Status::unresolvable("node(s) had no GPU").into();
        };
        match u32::try_from(gpus.room(model)).unwrap_or(u32::MAX) {
            0 => Status::unschedulable("node(s) had no GPU with enough free memory")
                .reason("insufficientGpuMemory", [("requested", format!("{model}Mi"))])
                .into(),
            room => Verdict::Room(room),
        }
    }

    /// 100 where the model fills a GPU, less the more it leaves over.
    fn score(&self, call: &Call, node: &Node) -> Result<i64, Status> {
        let Some(model) = self.model(call)? else { return Ok(0) };
        let Some(gpus) = self.gpus(call, node, &mut self.reservations()) else { return Ok(0) };
        let Some(gpu) = gpus.choose(model) else { return Ok(0) };
        let left = gpus.left(gpu).max(1);
        Ok((100 * model / left) as i64)
    }

    async fn reserve(&self, call: &Call, placement: &Placement<'_>) -> Result<Ready, Status> {
        let Some(model) = self.model(call)? else { return Ok(Ready::default()) };
        let (uid, name) = (&placement.pod.uid, placement.node.name);
        let mut reservations = self.reservations();
        if let Some(before) = reservations.get(uid).filter(|before| before.node == name) {
            return Ready::with_state(&Assigned { gpu: before.gpu }); // called before
        }
        // The pod itself may be on the node already, as assumed.
        let mut node = placement.node.clone();
        node.pods.retain(|pod| pod.uid != *uid);
        let gpu = self.gpus(call, &node, &mut reservations).and_then(|gpus| gpus.choose(model));
        let gpu = gpu.ok_or_else(|| Status::unschedulable("the node's GPUs have been taken meanwhile"))?;
        reservations.insert(uid.clone(), Reserved { node: name.to_string(), gpu, model, seen: false });
        Ready::with_state(&Assigned { gpu })
    }

    async fn unreserve(&self, _call: &Call, placement: &Placement<'_>) {
        self.reservations().remove(&placement.pod.uid);
    }
}
