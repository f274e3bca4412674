package main

import (
	"context"
	"math"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"trireme.dev/examples/plugin-go/triremev1"
)

func node(name string, labels map[string]string) *triremev1.NodeView {
	return &triremev1.NodeView{
		Name: name,
		Node: &triremev1.Node{Metadata: &triremev1.ObjectMeta{Name: name, Labels: labels}},
	}
}

// configured is the plugin with its default configuration, as calls without a hash and a profile name it.
func configured(t *testing.T) *maintenance {
	t.Helper()
	plugin := newMaintenance()
	configure(t, plugin, &triremev1.ConfigureRequest{ArgsJson: []byte("{}")})
	return plugin
}

func configure(t *testing.T, plugin *maintenance, request *triremev1.ConfigureRequest) []*triremev1.FieldError {
	t.Helper()
	response, err := plugin.Configure(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	return response.GetErrors()
}

// A profile that cannot choose the label has arguments without effect.
func TestArgumentsNameTheLabel(t *testing.T) {
	plugin := newMaintenance()
	errors := configure(t, plugin, &triremev1.ConfigureRequest{
		ConfigHash: 1, Profile: "p", ArgsJson: []byte(`{"maintenanceLabel": "down"}`),
	})
	if len(errors) != 0 {
		t.Fatalf("errors = %v", errors)
	}
	request := &triremev1.FilterRequest{
		Cycle: &triremev1.Cycle{ConfigHash: 1, Profile: "p"},
		Nodes: &triremev1.NodeSelection{Nodes: []*triremev1.NodeView{
			node("a", map[string]string{"down": ""}), node("b", map[string]string{maintenanceLabel: ""}),
		}},
	}
	response, err := plugin.Filter(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	if index := response.GetColumns().GetStatusIndex(); !slices.Equal(index, []uint32{1, 0}) {
		t.Errorf("status_index = %v", index)
	}
	request.Cycle.ConfigHash = 2
	if _, err := plugin.Filter(context.Background(), request); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("with a configuration that did not come: %v", err)
	}
}

// A mistake that is not refused shows as pods on nodes under maintenance.
func TestWrongArgumentsAreRefused(t *testing.T) {
	for args, field := range map[string]string{
		`{"maintenanceLabel": "no key"}`: "args.maintenanceLabel",
		`{"maintenanceLabel": 7}`:        "args.maintenanceLabel",
		`{"label": "down"}`:              "args.label",
		`[]`:                             "args",
	} {
		errors := configure(t, newMaintenance(), &triremev1.ConfigureRequest{ArgsJson: []byte(args)})
		if len(errors) != 1 || errors[0].GetField() != field || errors[0].GetMessage() == "" {
			t.Errorf("%s: errors = %v", args, errors)
		}
	}
}

// A node under maintenance that is not refused, or any other that is, breaks the plugin's one promise.
func TestFilterRefusesNodesUnderMaintenance(t *testing.T) {
	request := &triremev1.FilterRequest{Nodes: &triremev1.NodeSelection{Nodes: []*triremev1.NodeView{
		node("up", nil),
		node("down", map[string]string{maintenanceLabel: ""}),
		node("also-down", map[string]string{maintenanceLabel: "disk"}),
	}}}
	response, err := configured(t).Filter(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	columns := response.GetColumns()
	if !slices.Equal(columns.GetStatusIndex(), []uint32{0, 1, 1}) {
		t.Errorf("status_index = %v", columns.GetStatusIndex())
	}
	if !slices.Equal(columns.GetCapacity(), []int32{math.MaxInt32, 0, 0}) {
		t.Errorf("capacity = %v", columns.GetCapacity())
	}
	if len(columns.GetStatuses()) != 1 || columns.GetStatuses()[0].GetPlugin() != pluginName {
		t.Errorf("statuses = %v", columns.GetStatuses())
	}
}

// In a dry run the nodes come another way; to miss them would let preemption evict pods in vain.
func TestFilterAnswersDryRuns(t *testing.T) {
	request := &triremev1.FilterDryRunRequest{Runs: []*triremev1.DryRun{
		{Node: node("down", map[string]string{maintenanceLabel: "yes"})},
		{Node: node("up", nil), RemovedPods: []*triremev1.Pod{{}}},
	}}
	response, err := configured(t).FilterDryRun(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	if index := response.GetColumns().GetStatusIndex(); !slices.Equal(index, []uint32{1, 0}) {
		t.Errorf("status_index = %v", index)
	}
}

// Scores outside 0 to 100 would be an error of the plugin, whatever people write into labels.
func TestScoreIsTheNodesPreference(t *testing.T) {
	labels := map[string]int64{"": 0, "7": 7, "100": 100, "101": 100, "-5": 0, "many": 0, "1.5": 0, " 9": 0}
	for label, want := range labels {
		request := &triremev1.ScoreRequest{Nodes: &triremev1.NodeSelection{Nodes: []*triremev1.NodeView{
			node("a", map[string]string{preferenceLabel: label}),
		}}}
		response, err := configured(t).Score(context.Background(), request)
		if err != nil {
			t.Fatal(err)
		}
		if got := response.GetScores(); !slices.Equal(got, []int64{want}) {
			t.Errorf("score of preference %q = %v, want %d", label, got, want)
		}
	}
}
