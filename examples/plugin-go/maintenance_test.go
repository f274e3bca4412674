package main

import (
	"context"
	"math"
	"slices"
	"testing"

	"trireme.dev/examples/plugin-go/triremev1"
)

func node(name string, labels map[string]string) *triremev1.NodeView {
	return &triremev1.NodeView{
		Name: name,
		Node: &triremev1.Node{Metadata: &triremev1.ObjectMeta{Name: name, Labels: labels}},
	}
}

// A node under maintenance that is not refused, or any other that is, breaks the plugin's one promise.
func TestFilterRefusesNodesUnderMaintenance(t *testing.T) {
	request := &triremev1.FilterRequest{Nodes: &triremev1.NodeSelection{Nodes: []*triremev1.NodeView{
		node("up", nil),
		node("down", map[string]string{maintenanceLabel: ""}),
		node("also-down", map[string]string{maintenanceLabel: "disk"}),
	}}}
	response, err := newMaintenance().Filter(context.Background(), request)
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
	request := &triremev1.FilterRequest{DryRuns: []*triremev1.DryRun{
		{Node: node("down", map[string]string{maintenanceLabel: "yes"})},
		{Node: node("up", nil), RemovedPods: []*triremev1.Pod{{}}},
	}}
	response, err := newMaintenance().Filter(context.Background(), request)
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
		response, err := newMaintenance().Score(context.Background(), request)
		if err != nil {
			t.Fatal(err)
		}
		if got := response.GetColumns()[0].GetScores(); !slices.Equal(got, []int64{want}) {
			t.Errorf("score of preference %q = %v, want %d", label, got, want)
		}
	}
}
