// Also change: examples/plugin-python/pod_limit.py,
// examples/plugin-java/src/main/java/dev/trireme/examples/PodLimit.java,
// examples/plugin-typescript/src/pod_limit.ts (the same plugin).

// Command podlimit serves the scheduler plugin PodLimit: nodes with the label example.com/pod-limit take only so many
// pods, and those with room are preferred. How many pods a node has is not part of the node, so the plugin follows the
// cluster.
//
//	podlimit --listen 127.0.0.1:9000
package main

import (
	"context"
	"math"
	"strconv"

	v1 "k8s.io/api/core/v1"
	trireme "trireme.dev/sdk/go"
	"trireme.dev/sdk/go/framework"
)

const (
	pluginName = "PodLimit"
	limitLabel = "example.com/pod-limit"
)

var full = framework.NewStatus(framework.Unschedulable, "node(s) had as many pods as they may")

func main() {
	trireme.Main(trireme.Definition{
		Plugin:  podLimit{},
		Version: "2.1.0",
		// Called again about a node whose pods have changed.
		DependsOn: trireme.NodePods,
		NodeData:  trireme.Snapshot,
		PodFields: []string{"metadata.namespace"},
	})
}

// podLimit is the plugin.
type podLimit struct{}

// Name is what profiles call it.
func (podLimit) Name() string { return pluginName }

// EventsToRegister names the changes that may help a pod that was refused.
func (podLimit) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add | framework.UpdateNodeLabel}},
		{Event: framework.ClusterEvent{Resource: framework.AssignedPod, ActionType: framework.Delete}},
	}, nil
}

// Score is how much of the limit is left, in percent; also with pods of a batch on the node that are not there yet.
func (podLimit) Score(
	_ context.Context, _ framework.CycleState, _ *v1.Pod, node framework.NodeInfo,
) (int64, *framework.Status) {
	limit, err := strconv.ParseUint(node.Labels()[limitLabel], 10, 31)
	if err != nil {
		return framework.MaxScore, nil
	}
	room := max(int64(limit)-int64(len(node.GetPods())), 0)
	return room * framework.MaxScore / max(int64(limit), 1), nil
}

// ScoreExtensions is nil: scores are in the range from 0 to 100.
func (podLimit) ScoreExtensions() framework.ScoreExtensions { return nil }

// FilterCapacity is how many pods the node takes beside those that it has.
func (podLimit) FilterCapacity(
	_ context.Context, _ framework.CycleState, _ *v1.Pod, node framework.NodeInfo, _ int,
) (int, *framework.Status) {
	limit, err := strconv.ParseUint(node.Labels()[limitLabel], 10, 31)
	if err != nil {
		return math.MaxInt32, nil
	}
	room := int(limit) - len(node.GetPods())
	if room <= 0 {
		return 0, full
	}
	return room, nil
}
