// Also change: examples/plugin-python/maintenance.py,
// examples/plugin-java/src/main/java/dev/trireme/examples/Maintenance.java,
// examples/plugin-typescript/src/maintenance.ts (the same plugin).

package main

import (
	"context"
	"regexp"
	"strconv"

	v1 "k8s.io/api/core/v1"
	trireme "trireme.dev/sdk/go"
	"trireme.dev/sdk/go/framework"
)

const (
	pluginName = "Maintenance"

	// A node with this label, whatever its value, gets no new pods. A profile's args may name another one.
	maintenanceLabel = "example.com/maintenance"

	// How much a node is wanted: a whole number from 0 to 100. Without it: 0.
	preferenceLabel = "example.com/preference"
)

// A label's key.
var labelKey = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)

// arguments are the args of a profile's pluginConfig.
type arguments struct {
	MaintenanceLabel string `json:"maintenanceLabel"`
}

// maintenance keeps pods off nodes under maintenance, and prefers the nodes that say they are wanted.
type maintenance struct {
	down *framework.Status // the refusal: the message is counted and is in the pod's event, the reason is for programs
	args arguments
}

var definition = trireme.Definition{
	New:     trireme.WithArgs(newMaintenance, func(args *arguments) { args.MaintenanceLabel = maintenanceLabel }),
	Version: "2.0.0",
	// An answer is cached until the node changes: the plugin is called once for each node and class of pods.
	DependsOn: trireme.Node,
	NodeData:  trireme.Messages,
	// Nothing else of the pod matters, so nothing else is sent.
	PodFields: []string{"metadata.namespace"},
}

func newMaintenance(_ context.Context, args *arguments, _ framework.Handle) (framework.Plugin, error) {
	if !labelKey.MatchString(args.MaintenanceLabel) {
		return nil, trireme.FieldErrors{{Field: "maintenanceLabel", Message: "must be the key of a label"}}
	}
	down := framework.NewStatus(framework.UnschedulableAndUnresolvable, "node(s) were under maintenance").
		WithReason("underMaintenance", map[string]string{"label": args.MaintenanceLabel})
	return &maintenance{down: down, args: *args}, nil
}

// Name is what profiles call it.
func (m *maintenance) Name() string { return pluginName }

// EventsToRegister names the changes that may help a pod that was refused.
func (m *maintenance) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add | framework.UpdateNodeLabel}},
	}, nil
}

// Filter refuses the nodes under maintenance; evicting pods from them would not help.
func (m *maintenance) Filter(
	_ context.Context, _ framework.CycleState, _ *v1.Pod, node framework.NodeInfo,
) *framework.Status {
	if _, down := node.Labels()[m.args.MaintenanceLabel]; down {
		return m.down
	}
	return nil
}

// Score is the node's preference.
func (m *maintenance) Score(
	_ context.Context, _ framework.CycleState, _ *v1.Pod, node framework.NodeInfo,
) (int64, *framework.Status) {
	number, err := strconv.ParseInt(node.Labels()[preferenceLabel], 10, 64)
	if err != nil {
		return 0, nil
	}
	return min(max(number, 0), framework.MaxNodeScore), nil
}

// ScoreExtensions: the scores are 0 to 100 already.
func (m *maintenance) ScoreExtensions() framework.ScoreExtensions { return nil }
