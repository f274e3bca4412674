// Also change: internal/trireme/sdk/description.py (which names the other languages' files).

//! The methods of a plugin.

use serde_json::Value;
use tonic::async_trait;

use crate::call::{Call, Item, Node, Placement, PlacementTrial};
use crate::results::{Bound, Feasible, Permit, PreBind, PreFilter, Ready, SortKey, Status, Verdict};
use crate::v1;

/// A plugin: implement the methods of the extension points that its `Info` names. Any may be called at the same time.
#[async_trait]
pub trait Plugin: Send + Sync + 'static {
    /// Ok lets the pod into the queue; a refusal keeps it out until an event that the plugin registered.
    fn pre_enqueue(&self, _pod: &v1::Pod, _profile: &str) -> Result<(), Status> {
        Ok(())
    }

    /// The pod's position in the queue, of the pod and the arguments alone: it is called once, before the pod enters the
    /// queue, and again only when a field of `Info::pod_fields`, the arguments, the version or the process changes. A
    /// pod with an error waits, and it is called about again; others are not affected.
    fn sort_key(&self, pod: &v1::Pod, _profile: &str) -> Result<SortKey, Status> {
        Ok(SortKey::by_priority(pod))
    }

    /// Whether the event may help the pod that this plugin refused. The objects are as the API server has them.
    fn queueing_hint(&self, _pod: &v1::Pod, _event: &v1::ClusterEvent, _old: Option<&Value>, _new: Option<&Value>) -> bool {
        true
    }

    /// Refuses the pod outright, narrows the nodes, or keeps state.
    async fn pre_filter(&self, _call: &Call) -> Result<PreFilter, Status> {
        Ok(PreFilter::default())
    }

    /// Whether the node takes the pod, and how many copies. Also called for dry runs of preemption.
    fn filter(&self, _call: &Call, _node: &Node) -> Verdict {
        Verdict::Pass
    }

    /// Makes room when no node passed: what is to be done, which the scheduler executes.
    async fn post_filter(&self, _call: &Call, _refusals: &v1::NodeColumns) -> Result<v1::PostFilterResponse, Status> {
        Err(Status::unschedulable("nothing makes room"))
    }

    /// Prepares scoring on the nodes that passed.
    async fn pre_score(&self, _call: &Call, _nodes: &[Node<'_>]) -> Result<Ready, Status> {
        Ok(Ready::default())
    }

    /// How good the node is.
    fn score(&self, _call: &Call, _node: &Node) -> Result<i64, Status> {
        Ok(0)
    }

    /// Brings the raw scores of all nodes into 0 to 100.
    fn normalize_scores(&self, _call: &Call, _nodes: &[Node<'_>], _scores: &mut [i64]) -> Result<(), Status> {
        Ok(())
    }

    /// Reserves what a placement takes beside the node. May be called again for the same placement: it reserves once.
    async fn reserve(&self, _call: &Call, _placement: &Placement<'_>) -> Result<Ready, Status> {
        Ok(Ready::default())
    }

    /// Undoes reserve; also called for what is not reserved.
    async fn unreserve(&self, _call: &Call, _placement: &Placement<'_>) {}

    /// Lets an assumed pod be bound, or wait, or refuses it.
    async fn permit(&self, _call: &Call, _item: &Item<'_>) -> Result<Permit, Status> {
        Ok(Permit::Allow)
    }

    /// Whether pre_bind has work for the pod; it writes nothing.
    async fn needs_pre_bind(&self, _call: &Call, _item: &Item<'_>) -> Result<bool, Status> {
        Ok(true)
    }

    /// Does what must be done before binding; may be called again. It does not block: it answers what it waits for.
    async fn pre_bind(&self, _call: &Call, _item: &Item<'_>) -> Result<PreBind, Status> {
        Ok(PreBind::Done)
    }

    /// Binds the pod. One that is bound to the node already is a success.
    async fn bind(&self, _call: &Call, _item: &Item<'_>) -> Result<Bound, Status> {
        Ok(Bound::Skip)
    }

    /// The pod was bound.
    async fn post_bind(&self, _call: &Call, _item: &Item<'_>) {}

    /// Whether a group of pods may fit in a placement: called before the first pod of the group (the first group of a group
    /// of groups) is tried there, and after each. `Status::unschedulable` says that it will not, and ends the trial.
    /// `Call::pod` is empty: the pods of a group may differ.
    async fn placement_feasible(&self, _call: &Call, _trial: &PlacementTrial<'_>) -> Result<Feasible, Status> {
        Ok(Feasible::Fits)
    }
}
