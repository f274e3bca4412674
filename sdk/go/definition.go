// Also change: internal/trireme/sdk/values.py (which names the other languages' files).
// Also change: internal/trireme/sdk/description.py (which names the other languages' files).

package trireme

import (
	"context"
	"errors"
	"fmt"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

// Dependency is what a result for a node depends on, and so how long the scheduler caches it.
type Dependency = triremev1.Dependency

const (
	// Cluster: on anything; called every time, with one pod at a time. The default.
	Cluster = triremev1.Dependency_DEPENDENCY_CLUSTER
	// Node: on the node object alone; cached until the node changes.
	Node = triremev1.Dependency_DEPENDENCY_NODE
	// NodePods: also on the pods on the node; called again for nodes whose pods changed.
	NodePods = triremev1.Dependency_DEPENDENCY_NODE_PODS
)

// NodeData is the form in which the plugin gets nodes.
type NodeData = triremev1.NodeData

const (
	// Names: NodeInfo.Name alone, the cheapest. The default.
	Names = triremev1.NodeData_NODE_DATA_NAMES
	// Messages: also NodeInfo.Node, Labels and Message.
	Messages = triremev1.NodeData_NODE_DATA_MESSAGES
	// JSON: also NodeInfo.JSON, the object as the API server sent it.
	JSON = triremev1.NodeData_NODE_DATA_JSON
	// Snapshot: the plugin follows the whole cluster; also NodeInfo.GetPods and Handle.SnapshotSharedLister.
	Snapshot = triremev1.NodeData_NODE_DATA_SNAPSHOT
)

// Normalization is how the scheduler brings scores into 0 to 100.
type Normalization = triremev1.Normalization

const (
	// None: they are in that range already. The default.
	None = triremev1.Normalization_NORMALIZATION_NONE
	// Max: divided by the largest, times 100.
	Max = triremev1.Normalization_NORMALIZATION_MAX
	// MaxReversed: 100 minus Max, the smallest score is best.
	MaxReversed = triremev1.Normalization_NORMALIZATION_MAX_REVERSED
)

// States names the types of a plugin's cycle state: for each key a function that makes an empty value, a pointer.
type States map[framework.StateKey]func() framework.StateData

// Definition is a plugin's needs and limits, and how it is made. Exactly one of Plugin and New is set.
type Definition struct {
	// Plugin is a plugin without arguments.
	Plugin framework.Plugin
	// New makes the plugin for the arguments of one profile: see WithArgs and FromFramework.
	New Factory
	// Prototype is a value of the type that New makes, which says the extension points. Only needed where New refuses to
	// make a plugin of the arguments `{}`.
	Prototype framework.Plugin

	// Version of the plugin. The scheduler caches answers for as long as it stays: code or settings that answer otherwise
	// are another version.
	Version string
	// DependsOn decides how often the plugin is called.
	DependsOn Dependency
	// NodeData is in which form it gets nodes.
	NodeData NodeData
	// PodFields are the fields of the pod that it reads (`spec.nodeSelector`, `metadata.labels['example.com/tier']`); only
	// they are sent. Without any it gets what the built-in plugins see.
	PodFields []string
	// Normalization is not used where Score's ScoreExtensions are not nil.
	Normalization Normalization
	// MaxConcurrentCalls bounds the calls at once; further calls wait. 0: as many as come.
	MaxConcurrentCalls int
	// States names the types of its cycle state.
	States States
	// Idempotent: a call may be made twice, also at the same time and at two replicas, without any effect beyond the two
	// answers, which are the same. Then the scheduler may hedge calls that change nothing.
	Idempotent bool
	// ScoreCopies: Score also answers for nodes with copies of the pod on them, so that pods of a class are placed in batches
	// although the score depends on NodePods. With Snapshot the copies are among NodeInfo.GetPods, and nowhere else. Nil
	// means that it does, unless the plugin has a Filter that does not count (see framework.CapacityFilterPlugin), and where it
	// reads the cluster by its handle, which does not have them, pods are placed one at a time; true says that its scores are
	// right all the same. With other forms of nodes the copies are NodeInfo.AddedPods, which Score has to count, and nil means
	// that it does not.
	ScoreCopies *bool
	// RequiredFeatures are additions to the contract (docs/versioning.md) that the plugin cannot work without. A scheduler
	// that lacks one rejects it and says which; an older one, which does not know this field, is refused at the handshake.
	RequiredFeatures []string
}

// scoresCopies returns whether ScoreCopies is served, so far as it would be called at all.
func (d *Definition) scoresCopies(plugin framework.Plugin) bool {
	if _, ok := plugin.(framework.ScorePlugin); !ok {
		return false
	}
	if d.ScoreCopies != nil {
		return *d.ScoreCopies
	}
	// A Filter that does not count lets one pod of a batch on each node, where more might fit.
	_, filters := plugin.(framework.FilterPlugin)
	_, counts := plugin.(framework.CapacityFilterPlugin)
	return d.NodeData == Snapshot && d.DependsOn == NodePods && scoreExtensions(plugin) == nil && (counts || !filters)
}

// prototype makes the plugin whose methods say the extension points.
func (d *Definition) prototype(ctx context.Context, handle framework.Handle) (framework.Plugin, error) {
	if (d.Plugin == nil) == (d.New == nil) {
		return nil, errors.New("definition: exactly one of Plugin and New must be set")
	}
	if d.Plugin != nil {
		return d.Plugin, nil
	}
	if d.Prototype != nil {
		return d.Prototype, nil
	}
	plugin, err := d.New(ctx, []byte("{}"), handle)
	if err != nil {
		return nil, fmt.Errorf("definition: New refuses the arguments {}, so Prototype must be set: %w", err)
	}
	return plugin, nil
}

// scoreExtensions returns the plugin's own normalisation, or nil.
func scoreExtensions(plugin framework.Plugin) framework.ScoreExtensions {
	if score, ok := plugin.(framework.ScorePlugin); ok {
		return score.ScoreExtensions()
	}
	return nil
}

// points returns the extension points of the plugin's interfaces.
func points(plugin framework.Plugin) []triremev1.ExtensionPoint {
	var out []triremev1.ExtensionPoint
	add := func(has bool, point triremev1.ExtensionPoint) {
		if has {
			out = append(out, point)
		}
	}
	_, preEnqueue := plugin.(framework.PreEnqueuePlugin)
	_, sortKey := plugin.(framework.SortKeyPlugin)
	_, preFilter := plugin.(framework.PreFilterPlugin)
	_, filter := plugin.(framework.FilterPlugin)
	_, capacity := plugin.(framework.CapacityFilterPlugin)
	_, postFilter := plugin.(framework.PostFilterPlugin)
	_, preScore := plugin.(framework.PreScorePlugin)
	_, score := plugin.(framework.ScorePlugin)
	_, reserve := plugin.(framework.ReservePlugin)
	_, permit := plugin.(framework.PermitPlugin)
	_, preBind := plugin.(framework.PreBindPlugin)
	_, bind := plugin.(framework.BindPlugin)
	_, postBind := plugin.(framework.PostBindPlugin)
	_, placementFeasible := plugin.(framework.PlacementFeasiblePlugin)
	add(preEnqueue, triremev1.ExtensionPoint_EXTENSION_POINT_PRE_ENQUEUE)
	add(sortKey, triremev1.ExtensionPoint_EXTENSION_POINT_QUEUE_SORT)
	add(preFilter, triremev1.ExtensionPoint_EXTENSION_POINT_PRE_FILTER)
	add(filter || capacity, triremev1.ExtensionPoint_EXTENSION_POINT_FILTER)
	add(postFilter, triremev1.ExtensionPoint_EXTENSION_POINT_POST_FILTER)
	add(preScore, triremev1.ExtensionPoint_EXTENSION_POINT_PRE_SCORE)
	add(score, triremev1.ExtensionPoint_EXTENSION_POINT_SCORE)
	add(scoreExtensions(plugin) != nil, triremev1.ExtensionPoint_EXTENSION_POINT_NORMALIZE_SCORE)
	add(reserve, triremev1.ExtensionPoint_EXTENSION_POINT_RESERVE)
	add(permit, triremev1.ExtensionPoint_EXTENSION_POINT_PERMIT)
	add(preBind, triremev1.ExtensionPoint_EXTENSION_POINT_PRE_BIND)
	add(bind, triremev1.ExtensionPoint_EXTENSION_POINT_BIND)
	add(postBind, triremev1.ExtensionPoint_EXTENSION_POINT_POST_BIND)
	add(placementFeasible, triremev1.ExtensionPoint_EXTENSION_POINT_PLACEMENT_FEASIBLE)
	return out
}

// describe makes the plugin's description for the handshake.
func (d *Definition) describe(ctx context.Context, plugin framework.Plugin) (*triremev1.PluginInfo, error) {
	name := plugin.Name()
	info := &triremev1.PluginInfo{
		Name: name, Version: d.Version, ExtensionPoints: points(plugin), MaxConcurrentCalls: uint32(d.MaxConcurrentCalls),
		PodFields: d.PodFields, NodeData: d.NodeData, DependsOn: d.DependsOn, Normalization: d.Normalization,
		Idempotent: d.Idempotent, ScoreCopies: d.scoresCopies(plugin), RequiredFeatures: d.RequiredFeatures,
	}
	if name == "" {
		return nil, errors.New("definition: the plugin's Name is empty")
	}
	if len(info.ExtensionPoints) == 0 {
		return nil, fmt.Errorf("plugin %s: has no method of an extension point (see package framework)", name)
	}
	if _, counts := plugin.(framework.CapacityFilterPlugin); counts && d.DependsOn == Node {
		return nil, fmt.Errorf("plugin %s: FilterCapacity counts pods, so DependsOn must not be Node", name)
	}
	if scoreExtensions(plugin) != nil {
		info.Normalization = triremev1.Normalization_NORMALIZATION_CUSTOM
	}
	events, err := events(ctx, plugin)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: EventsToRegister: %w", name, err)
	}
	for _, event := range events {
		info.EventsToRegister = append(info.EventsToRegister, &triremev1.ClusterEvent{
			Resource: string(event.Event.Resource), Actions: event.Event.ActionType.Names(), Hint: event.QueueingHintFn != nil,
		})
	}
	return info, nil
}

// events returns what the plugin registers.
func events(ctx context.Context, plugin framework.Plugin) ([]framework.ClusterEventWithHint, error) {
	extensions, ok := plugin.(framework.EnqueueExtensions)
	if !ok {
		return nil, nil
	}
	return extensions.EventsToRegister(ctx)
}
