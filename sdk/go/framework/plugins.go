/*
Copyright 2025 The Kubernetes Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Changed for Trireme: from k8s.io/kube-scheduler/framework, without what a plugin outside the scheduler cannot have.

package framework

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"trireme.dev/sdk/go/triremev1"
)

const (
	// MaxNodeScore is the best score after normalisation.
	MaxNodeScore int64 = MaxScore
	// MinNodeScore is the worst score after normalisation.
	MinNodeScore int64 = MinScore
	// MaxScore is the best score after normalisation.
	MaxScore int64 = 100
	// MinScore is the worst score after normalisation.
	MinScore int64 = 0
)

// PluginFactory makes a plugin for one profile.
type PluginFactory = func(ctx context.Context, configuration runtime.Object, handle Handle) (Plugin, error)

// Plugin is what all plugins have: a name, which profiles use. Which further interfaces of this file it has says at which
// extension points it takes part.
type Plugin interface {
	Name() string
}

// PreEnqueuePlugin may keep pods out of the queue.
type PreEnqueuePlugin interface {
	Plugin
	// PreEnqueue lets the pod in by a success. A refused pod is gated until an event that the plugin registered.
	PreEnqueue(ctx context.Context, p *v1.Pod) *Status
}

// SortKey is a pod's position in the queue. Numbers are compared from the first on, and the least is tried first.
type SortKey struct {
	// Level is compared first: 1 to 16 numbers. Pods of one class with the same level may be scheduled in one batch, and
	// classes of one level take turns; so levels that all differ keep every batch to one pod. The order by priority is
	// the negated priority.
	Level []int64
	// Rest orders the pods of one class and level: at most 16 numbers, none is allowed. What is equal goes by age.
	Rest []int64
}

// SortKeyPlugin orders the queue. It takes the place of Kubernetes' QueueSortPlugin, whose Less compares two pods: a call
// for each comparison would cost the queue a round trip each, and a Less whose answers change while pods wait leaves the
// queue without any order. The plugin is called once, before the pod enters the queue, and the scheduler compares.
type SortKeyPlugin interface {
	Plugin
	// SortKey depends on the pod and the arguments alone: it is called again only when a field of Definition.PodFields
	// changes, or the plugin's arguments, version or process. An error keeps the pods of the call out of the queue, and
	// the call is repeated; where the scheduler's configuration ignores failures they are ordered by priority.
	SortKey(ctx context.Context, p *v1.Pod) (SortKey, error)
}

// EnqueueExtensions names the events that may help a pod that the plugin refused. Without it every event does.
type EnqueueExtensions interface {
	Plugin
	EventsToRegister(ctx context.Context) ([]ClusterEventWithHint, error)
}

// PreFilterResult narrows the nodes.
type PreFilterResult struct {
	// NodeNames is the nodes that the pod may run on at all; nil: all of them.
	NodeNames sets.Set[string]
}

// AllNodes says whether the nodes are not narrowed.
func (p *PreFilterResult) AllNodes() bool {
	return p == nil || p.NodeNames == nil
}

// PreFilterExtensions keeps PreFilter's state right while preemption tries what would be without some pods.
type PreFilterExtensions interface {
	// AddPod is called for each pod that is treated as placed on the node.
	AddPod(ctx context.Context, state CycleState, podToSchedule *v1.Pod, podInfoToAdd PodInfo, nodeInfo NodeInfo) *Status
	// RemovePod is called for each pod that is treated as removed from the node.
	RemovePod(ctx context.Context, state CycleState, podToSchedule *v1.Pod, podInfoToRemove PodInfo, nodeInfo NodeInfo) *Status
}

// PreFilterPlugin may refuse a pod outright, narrow its nodes, or keep state for Filter.
type PreFilterPlugin interface {
	Plugin
	// PreFilter is called once for a class of pods. `nodes` is nil unless the plugin follows the cluster (Snapshot).
	PreFilter(ctx context.Context, state CycleState, p *v1.Pod, nodes []NodeInfo) (*PreFilterResult, *Status)
	// PreFilterExtensions may return nil.
	PreFilterExtensions() PreFilterExtensions
}

// FilterPlugin refuses nodes for a pod. In a dry run of preemption `nodeInfo` is the node without the victims.
type FilterPlugin interface {
	Plugin
	Filter(ctx context.Context, state CycleState, pod *v1.Pod, nodeInfo NodeInfo) *Status
}

// CapacityFilterPlugin is a FilterPlugin that also counts: the scheduler places a whole batch of equal pods after one
// call. Without it a node that passes takes any number of copies if answers depend on the node alone, else one a call.
type CapacityFilterPlugin interface {
	Plugin
	// FilterCapacity returns how many more copies of the pod fit on the node, at least 1 with a success, and need not
	// count beyond `wanted`.
	FilterCapacity(ctx context.Context, state CycleState, pod *v1.Pod, nodeInfo NodeInfo, wanted int) (int, *Status)
}

// NodeToStatusReader is why no node passed.
type NodeToStatusReader interface {
	// Get returns the node's status; a success for a node that passed. Nodes have names here with Snapshot only; without
	// it the status is UnschedulableAndUnresolvable for all.
	Get(nodeName string) *Status
	// NodesForStatusCode returns the nodes whose status has the code; with Snapshot only.
	NodesForStatusCode(nodeLister NodeInfoLister, code Code) ([]NodeInfo, error)
}

// NominatingMode says what happens to the pod's nomination.
type NominatingMode int

const (
	// ModeNoop leaves it.
	ModeNoop NominatingMode = iota
	// ModeOverride sets it; an empty name clears it.
	ModeOverride
)

// NominatingInfo is the node that a pod is nominated to.
type NominatingInfo struct {
	NominatedNodeName string
	NominatingMode    NominatingMode
}

// PostFilterResult makes room for the pod. A plugin outside the scheduler writes nothing itself: the scheduler executes
// Actions, in order.
type PostFilterResult struct {
	*NominatingInfo
	// Actions are evictions and the like; Evict makes one.
	Actions []*triremev1.Action
}

// Evict deletes a pod to make room for another one.
func Evict(victim, preemptor *v1.Pod, nodeName, message string) *triremev1.Action {
	return &triremev1.Action{
		Pod: Identity(victim),
		Action: &triremev1.Action_Evict{Evict: &triremev1.Evict{
			Message: message, Preemptor: Identity(preemptor), NodeName: nodeName,
		}},
	}
}

// Identity names a pod in the protocol.
func Identity(pod *v1.Pod) *triremev1.PodIdentity {
	return &triremev1.PodIdentity{Namespace: pod.Namespace, Name: pod.Name, Uid: string(pod.UID)}
}

// PostFilterPlugin makes room when no node passed.
type PostFilterPlugin interface {
	Plugin
	PostFilter(ctx context.Context, state CycleState, pod *v1.Pod, filteredNodeStatusMap NodeToStatusReader) (*PostFilterResult, *Status)
}

// PreScorePlugin prepares scoring.
type PreScorePlugin interface {
	Plugin
	// PreScore gets the nodes that passed; Skip leaves Score out.
	PreScore(ctx context.Context, state CycleState, pod *v1.Pod, nodes []NodeInfo) *Status
}

// NodeScore is the score of one node.
type NodeScore struct {
	Name  string
	Score int64
}

// NodeScoreList is the scores of all nodes that passed.
type NodeScoreList []NodeScore

// ScoreExtensions normalises scores.
type ScoreExtensions interface {
	// NormalizeScore writes scores from MinNodeScore to MaxNodeScore in place of the raw ones.
	NormalizeScore(ctx context.Context, state CycleState, p *v1.Pod, scores NodeScoreList) *Status
}

// ScorePlugin ranks nodes.
type ScorePlugin interface {
	Plugin
	Score(ctx context.Context, state CycleState, p *v1.Pod, nodeInfo NodeInfo) (int64, *Status)
	// ScoreExtensions may return nil: then scores are normalised as Definition.Normalization says.
	ScoreExtensions() ScoreExtensions
}

// ReservePlugin reserves what a placement takes beside the node.
type ReservePlugin interface {
	Plugin
	// Reserve may be called again for the same pod and node: it must reserve once.
	Reserve(ctx context.Context, state CycleState, p *v1.Pod, nodeName string) *Status
	// Unreserve undoes it; also called for what is not reserved.
	Unreserve(ctx context.Context, state CycleState, p *v1.Pod, nodeName string)
}

// PermitPlugin may refuse an assumed pod, or let it wait.
type PermitPlugin interface {
	Plugin
	// Permit returns Wait and the longest wait, after which the pod is refused. Handle ends the wait earlier.
	Permit(ctx context.Context, state CycleState, p *v1.Pod, nodeName string) (*Status, time.Duration)
}

// PreBindPreFlightResult is for compatibility: Trireme's binding needs nothing of it.
type PreBindPreFlightResult struct {
	AllowParallel bool
}

// PreBindPlugin does what must be done before binding.
type PreBindPlugin interface {
	Plugin
	// PreBindPreFlight answers Skip where PreBind has nothing to do. It writes nothing.
	PreBindPreFlight(ctx context.Context, state CycleState, p *v1.Pod, nodeName string) (*PreBindPreFlightResult, *Status)
	// PreBind may be called again. It must not block for long: see PreBindWaitPlugin.
	PreBind(ctx context.Context, state CycleState, p *v1.Pod, nodeName string) *Status
}

// PreBindWaitPlugin names what its PreBind waits for, where that returned Wait: PreBind is called again when one of the
// objects has changed, and every ten seconds. Kubernetes' framework has no such interface, its PreBind blocks.
type PreBindWaitPlugin interface {
	PreBindPlugin
	// PreBindWait returns the objects (kind as in triremev1.ClusterObject, e.g. `persistent_volume_claim`; or `pod`), and
	// how long the pod waits at most.
	PreBindWait(ctx context.Context, state CycleState, p *v1.Pod, nodeName string) ([]*triremev1.ObjectKey, time.Duration)
}

// BindPlugin binds pods itself.
type BindPlugin interface {
	Plugin
	// Bind is a success for a pod that is bound to the node already; Skip leaves the pod to the next plugin.
	Bind(ctx context.Context, state CycleState, p *v1.Pod, nodeName string) *Status
}

// PlacementTrial is the placement that a group of pods is being tried in. Kubernetes' framework has its PlacementCycleState,
// which plugins within the scheduler fill, and the scheduler's snapshot instead.
type PlacementTrial struct {
	// Name is the placement's name: of a topology domain its label's value. Empty: the group is tried on all nodes.
	Name string
	// NodeNames are its nodes; nil: all nodes.
	NodeNames []string
	// Tried are the pods that were tried so far, in order; of a group of groups those that fit in their groups.
	Tried []TriedPod
}

// TriedPod is a pod of a group that was tried, and the node that it would get; none where no node of the placement takes it.
type TriedPod struct {
	Pod      *v1.Pod
	NodeName string
}

// PodGroupInfo is a group of pods, or of groups.
type PodGroupInfo interface {
	GetName() string
	GetNamespace() string
	GetUID() string
	// GetMinCount is how many pods, or groups, must fit by the group's policy.
	GetMinCount() int
	// GetPodGroup is its metadata and spec; nil for a group of groups.
	GetPodGroup() *triremev1.PodGroup
	// GetCompositePodGroup is its metadata and spec; nil for a group of pods.
	GetCompositePodGroup() *triremev1.CompositePodGroup
}

// PlacementProgress counts the pods of a group, or the groups of a group of groups, by what came of them in the trial.
type PlacementProgress struct {
	// Remaining were not tried yet.
	Remaining int
	// Scheduled fit; the pods of the group that had a node before are among them.
	Scheduled int
	// Unschedulable do not fit.
	Unschedulable int
}

// PlacementFeasiblePlugin decides whether a group of pods may fit in a placement.
type PlacementFeasiblePlugin interface {
	Plugin
	// PlacementFeasible is called before the first pod of the group (the first group of a group of groups) is tried in the
	// placement, and after each. Wait, with a reason: it fits if more of it does. Unschedulable: it will not fit there, and
	// the trial ends. After a success it keeps returning success.
	PlacementFeasible(
		ctx context.Context, placement *PlacementTrial, podGroupInfo PodGroupInfo, placementProgress PlacementProgress,
	) *Status
}

// PostBindPlugin is notified of pods that were bound.
type PostBindPlugin interface {
	Plugin
	PostBind(ctx context.Context, state CycleState, p *v1.Pod, nodeName string)
}
