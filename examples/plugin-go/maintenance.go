package main

import (
	"context"
	"crypto/rand"
	"math"
	"strconv"

	"trireme.dev/examples/plugin-go/triremev1"
)

const (
	pluginName = "Maintenance"

	// A node with this label, whatever its value, gets no new pods. A profile's args may name another one.
	maintenanceLabel = "example.com/maintenance"

	// How much a node is wanted: a whole number from 0 to 100. Without it: 0.
	preferenceLabel = "example.com/preference"

	maxScore = 100
)

// maintenance is the plugin: it keeps pods off nodes under maintenance, and prefers the nodes that say they are wanted.
// It serves the handshake and two of the scheduler's steps; what it does not serve answers UNIMPLEMENTED by itself.
type maintenance struct {
	triremev1.UnimplementedPluginServiceServer
	triremev1.UnimplementedFilterPluginServer
	triremev1.UnimplementedScorePluginServer
	info   *triremev1.GetPluginInfoResponse
	labels configurations
}

func newMaintenance() *maintenance {
	return &maintenance{info: &triremev1.GetPluginInfoResponse{
		Instance: rand.Text(),
		Plugins: []*triremev1.PluginInfo{{
			Name:    pluginName,
			Version: "1.0.0",
			ExtensionPoints: []triremev1.ExtensionPoint{
				triremev1.ExtensionPoint_EXTENSION_POINT_FILTER,
				triremev1.ExtensionPoint_EXTENSION_POINT_SCORE,
			},
			// The answer is kept until the node changes: the plugin is asked once for each node and class of pods.
			DependsOn: triremev1.Dependency_DEPENDENCY_NODE,
			NodeData:  triremev1.NodeData_NODE_DATA_MESSAGES,
			// Nothing else of the pod matters, so nothing else is sent.
			PodFields:     []string{"metadata.namespace"},
			Normalization: triremev1.Normalization_NORMALIZATION_NONE,
			// These changes may help a pod that was refused.
			EventsToRegister: []*triremev1.ClusterEvent{
				{Resource: "Node", Actions: []string{"Add", "UpdateNodeLabel"}},
			},
		}},
	}}
}

// GetPluginInfo is the handshake.
func (m *maintenance) GetPluginInfo(
	context.Context, *triremev1.GetPluginInfoRequest,
) (*triremev1.GetPluginInfoResponse, error) {
	return m.info, nil
}

// Configure checks a profile's arguments and holds them for later calls.
func (m *maintenance) Configure(
	_ context.Context, request *triremev1.ConfigureRequest,
) (*triremev1.ConfigureResponse, error) {
	label, errors := parseArguments(request.GetArgsJson())
	if len(errors) == 0 {
		m.labels.set(request.GetConfigHash(), request.GetProfile(), label)
	}
	return &triremev1.ConfigureResponse{Errors: errors}, nil
}

// Filter refuses the nodes under maintenance. The answer is in columns: the distinct refusals once, then one number a
// node (0 passes, else which refusal, from 1) and how many copies of the pod fit.
func (m *maintenance) Filter(
	ctx context.Context, request *triremev1.FilterRequest,
) (*triremev1.FilterResponse, error) {
	label, err := m.labels.get(ctx, request.GetCycle())
	if err != nil {
		return nil, err
	}
	columns := m.columns(request.GetCycle(), label, request.GetNodes().GetNodes())
	return &triremev1.FilterResponse{Columns: columns}, nil
}

// FilterDryRun is Filter as if pods were gone or there: pods do not matter to this plugin.
func (m *maintenance) FilterDryRun(
	ctx context.Context, request *triremev1.FilterDryRunRequest,
) (*triremev1.FilterDryRunResponse, error) {
	label, err := m.labels.get(ctx, request.GetCycle())
	if err != nil {
		return nil, err
	}
	nodes := make([]*triremev1.NodeView, len(request.GetRuns()))
	for i, run := range request.GetRuns() {
		nodes[i] = run.GetNode()
	}
	return &triremev1.FilterDryRunResponse{Columns: m.columns(request.GetCycle(), label, nodes)}, nil
}

// columns answers about nodes, one entry each.
func (m *maintenance) columns(
	cycle *triremev1.Cycle, label string, nodes []*triremev1.NodeView,
) *triremev1.NodeColumns {
	columns := &triremev1.NodeColumns{
		Generation:  cycle.GetGeneration(),
		Size:        uint32(len(nodes)),
		StatusIndex: make([]uint32, len(nodes)),
		Capacity:    make([]int32, len(nodes)),
	}
	for i, node := range nodes {
		if _, down := node.GetNode().GetMetadata().GetLabels()[label]; !down {
			columns.Capacity[i] = math.MaxInt32
			continue
		}
		if len(columns.Statuses) == 0 {
			columns.Statuses = append(columns.Statuses, underMaintenance(label))
		}
		columns.StatusIndex[i] = 1
	}
	return columns
}

// Score is the node's preference.
func (m *maintenance) Score(_ context.Context, request *triremev1.ScoreRequest) (*triremev1.ScoreResponse, error) {
	nodes := request.GetNodes().GetNodes()
	scores := make([]int64, len(nodes))
	for i, node := range nodes {
		scores[i] = preference(node.GetNode().GetMetadata().GetLabels()[preferenceLabel])
	}
	return &triremev1.ScoreResponse{
		Status: &triremev1.Status{Code: triremev1.Code_CODE_SUCCESS},
		Scores: scores,
	}, nil
}

// underMaintenance is the refusal: the message is counted and stands in the pod's event, the reason says the same to
// programs. Evicting pods from the node would not help.
func underMaintenance(label string) *triremev1.Status {
	return &triremev1.Status{
		Code:     triremev1.Code_CODE_UNSCHEDULABLE_AND_UNRESOLVABLE,
		Plugin:   pluginName,
		Messages: []string{"node(s) were under maintenance"},
		Reasons: []*triremev1.Reason{
			{Code: "underMaintenance", Parameters: map[string]string{"label": label}},
		},
	}
}

func preference(label string) int64 {
	number, err := strconv.ParseInt(label, 10, 64)
	if err != nil {
		return 0
	}
	return min(max(number, 0), maxScore)
}
