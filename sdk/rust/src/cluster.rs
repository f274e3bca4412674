// Also change: internal/trireme/sdk/cluster_state.py (which names the other languages' files).

//! The cluster as a plugin with Snapshot follows it: nodes by slot, the pods on them, and all other objects.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::call::{Node, PlacedPod};
use crate::objects::{Object, Objects};
use crate::v1;

/// Bits of `PodColumns.flags`: terminating, also because the scheduler preempted it.
const TERMINATING: u32 = 3;

#[derive(Clone, Debug)]
struct Placed {
    slot: u32,
    pod: PlacedPod,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    node: Arc<v1::Node>,
    pods: BTreeMap<u32, ()>, // rows, in their order
}

/// The cluster at a generation, with what the frontend assumes. A change copies what it changes, so calls keep the state that they began with.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    pub(crate) generation: u64,
    pub(crate) synced: bool,
    slots: HashMap<u32, Slot>,
    names: HashMap<String, u32>,
    classes: HashMap<u32, Arc<v1::Pod>>,
    rows: HashMap<u32, Placed>,
    objects: Objects,
}

impl Cluster {
    /// The generation of its last change.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The nodes, with the pods on each.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        self.names.values().map(|number| self.node(*number))
    }

    /// The node of a name; None: there is none.
    pub fn named(&self, name: &str) -> Option<Node<'_>> {
        Some(self.node(*self.names.get(name)?))
    }

    /// The other objects of a kind, a field of `v1::ClusterObject` such as `persistent_volume_claim`.
    pub fn objects(&self, kind: &str) -> impl Iterator<Item = &Object> {
        self.objects.of(kind)
    }

    /// The object of a key, such as one that PreBind waits for; None: there is none. Pods are with the nodes.
    pub fn object(&self, key: &v1::ObjectKey) -> Option<&Object> {
        self.objects.get(key)
    }

    /// Advances to the delta's generation, in the order of the contract: what is gone goes first, so that a slot or row
    /// can be given to another.
    pub(crate) fn apply(&mut self, delta: v1::Delta) -> Result<(), String> {
        if delta.reset {
            *self = Self::default();
        } else if delta.from_generation != self.generation {
            return Err(format!("at generation {}, not {}", self.generation, delta.from_generation));
        }
        for row in delta.removed_pods {
            self.remove_pod(row);
        }
        for number in delta.removed_slots {
            if let Some(gone) = self.slots.remove(&number) {
                self.names.remove(node_name(&gone.node));
            }
        }
        for class in delta.classes {
            self.classes.insert(class.id, Arc::new(class.pod.unwrap_or_default()));
        }
        for entry in delta.nodes {
            let node = Arc::new(entry.node.unwrap_or_default());
            self.names.insert(node_name(&node).to_string(), entry.slot);
            self.slots.entry(entry.slot).or_default().node = node;
        }
        if let Some(pods) = delta.pods {
            self.set_pods(&pods)?;
        }
        for number in delta.removed_classes {
            self.classes.remove(&number);
        }
        self.objects.apply(delta.objects, &delta.removed_objects);
        self.generation = delta.to_generation;
        self.synced = !delta.partial;
        Ok(())
    }

    /// Places the pods of these rows in place of those before; known names may be left out.
    fn set_pods(&mut self, pods: &v1::PodColumns) -> Result<(), String> {
        for (at, &row) in pods.row.iter().enumerate() {
            let column = |name: &str| format!("pods.{name} has no entry {at}");
            let number = *pods.pod_class.get(at).ok_or_else(|| column("pod_class"))?;
            let slot = *pods.slot.get(at).ok_or_else(|| column("slot"))?;
            let (mut uid, mut name) = (
                pods.uid.get(at).ok_or_else(|| column("uid"))?.clone(),
                pods.name.get(at).ok_or_else(|| column("name"))?.clone(),
            );
            if let Some(before) = self.remove_pod(row) {
                if uid.is_empty() {
                    uid = before.pod.uid;
                }
                if name.is_empty() {
                    name = before.pod.name;
                }
            }
            let pod = self.classes.get(&number).ok_or_else(|| format!("pods.pod_class: there is no class {number}"))?;
            let terminating = pods.flags.get(at).is_some_and(|flags| flags & TERMINATING != 0);
            let pod = PlacedPod { uid, name, pod: pod.clone(), terminating };
            self.slots.entry(slot).or_default().pods.insert(row, ());
            self.rows.insert(row, Placed { slot, pod });
        }
        Ok(())
    }

    fn remove_pod(&mut self, row: u32) -> Option<Placed> {
        let gone = self.rows.remove(&row)?;
        if let Some(slot) = self.slots.get_mut(&gone.slot) {
            slot.pods.remove(&row);
        }
        Some(gone)
    }

    /// The node at the slot; empty where there is none any more.
    pub(crate) fn node(&self, number: u32) -> Node<'_> {
        match self.slots.get(&number) {
            None => Node { name: "", message: None, json: &[], pods: Vec::new() },
            Some(slot) => Node {
                name: node_name(&slot.node),
                message: Some(&slot.node),
                json: &[],
                pods: slot.pods.keys().filter_map(|row| Some(&self.rows.get(row)?.pod)).collect(),
            },
        }
    }

    /// So many pods of a class that a batch may place, each with a made-up name and UID; none of a class that is gone by now.
    pub(crate) fn copies(&self, class: u32, copies: u32) -> Vec<PlacedPod> {
        let Some(pod) = self.classes.get(&class) else { return Vec::new() };
        let copy = |number| {
            let name = format!("copy-{number}");
            PlacedPod { uid: name.clone(), name, pod: pod.clone(), terminating: false }
        };
        (0..copies).map(copy).collect()
    }

    /// The pods of rows and classes that a dry run names. Those that are gone by now are left out: the caller notices that
    /// the cluster has changed.
    pub(crate) fn dry_run(&self, run: &v1::DryRun) -> (Vec<PlacedPod>, Vec<PlacedPod>) {
        let removed = run.removed_rows.iter().filter_map(|row| Some(self.rows.get(row)?.pod.clone())).collect();
        let added = run.added_classes.iter().filter_map(|number| {
            let pod = self.classes.get(number)?.clone();
            Some(PlacedPod { uid: String::new(), name: String::new(), pod, terminating: false })
        });
        (removed, added.collect())
    }
}

fn node_name(node: &v1::Node) -> &str {
    node.metadata.as_ref().map_or("", |metadata| metadata.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(row: Vec<u32>, slot: Vec<u32>) -> Option<v1::PodColumns> {
        let many = row.len();
        Some(v1::PodColumns {
            row,
            slot,
            pod_class: vec![1; many],
            uid: vec!["u".into(); many],
            name: vec!["p".into(); many],
            start_time_s: vec![0; many],
            flags: vec![1; many],
        })
    }

    /// A follower that misses a change answers about a cluster that is not there.
    #[test]
    fn deltas_change_the_cluster() {
        let mut cluster = Cluster::default();
        let node = |slot, name: &str| v1::NodeEntry {
            slot,
            node: Some(v1::Node {
                metadata: Some(v1::ObjectMeta { name: name.into(), ..Default::default() }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let full = v1::Delta {
            reset: true,
            to_generation: 3,
            nodes: vec![node(0, "a"), node(2, "c")],
            classes: vec![v1::PodClass { id: 1, pod: Some(v1::Pod::default()), labels_projected: false }],
            pods: pods(vec![0, 1], vec![0, 0]),
            ..Default::default()
        };
        cluster.apply(full).unwrap();
        assert_eq!((cluster.node(0).pods.len(), cluster.node(2).pods.len(), cluster.synced), (2, 0, true));
        let moved = v1::Delta {
            from_generation: 3,
            to_generation: 4,
            removed_pods: vec![0],
            pods: pods(vec![1, 5], vec![2, 2]),
            ..Default::default()
        };
        cluster.apply(moved).unwrap();
        assert_eq!((cluster.node(0).pods.len(), cluster.node(2).pods.len()), (0, 2));
        assert!(cluster.node(2).pods[0].terminating);
        assert_eq!(cluster.named("c").unwrap().pods.len(), 2);
        let (removed, added) =
            cluster.dry_run(&v1::DryRun { removed_rows: vec![1, 9], added_classes: vec![1, 8], ..Default::default() });
        assert_eq!((removed.len(), added.len()), (1, 1));
        assert_eq!((cluster.copies(1, 3).len(), cluster.copies(8, 3).len()), (3, 0));
        let gone = v1::Delta { from_generation: 4, to_generation: 5, removed_slots: vec![2], ..Default::default() };
        cluster.apply(gone).unwrap();
        assert!(cluster.node(2).message.is_none() && cluster.named("c").is_none());
        assert!(cluster.apply(v1::Delta { from_generation: 9, ..Default::default() }).is_err());
    }
}
