package trireme

import (
	"context"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

// podCount scores by the number of pods on a node: 100, and 10 less for each. `reads` looks the node up by the handle.
type podCount struct {
	base
	lister framework.SharedLister
	reads  bool
}

func (c podCount) Score(
	_ context.Context, _ framework.CycleState, _ *v1.Pod, node framework.NodeInfo,
) (int64, *framework.Status) {
	if c.reads {
		found, err := c.lister.NodeInfos().Get(node.Name())
		if err != nil {
			return 0, framework.AsStatus(err)
		}
		node = found
	}
	return 100 - 10*int64(len(node.GetPods())+len(node.AddedPods())), nil
}

func (podCount) ScoreExtensions() framework.ScoreExtensions { return nil }

// following serves a plugin that follows a cluster of one node without pods.
func following(t *testing.T, reads bool, counts *bool) triremev1.ScorePluginClient {
	t.Helper()
	made := func(_ context.Context, _ []byte, handle framework.Handle) (framework.Plugin, error) {
		return podCount{lister: handle.SnapshotSharedLister(), reads: reads}, nil
	}
	connection := served(t, Definition{New: made, DependsOn: NodePods, NodeData: Snapshot, ScoreCopies: counts}, Options{})
	configured := &triremev1.ConfigureRequest{ConfigHash: 1, Profile: "p", ArgsJson: []byte("{}")}
	if _, err := triremev1.NewPluginServiceClient(connection).Configure(context.Background(), configured); err != nil {
		t.Fatal(err)
	}
	send(t, follow(t, triremev1.NewSnapshotFollowerClient(connection)), &triremev1.Delta{
		Reset_: true, ToGeneration: 1,
		Nodes:   []*triremev1.NodeEntry{{Slot: 0, Node: &triremev1.Node{Metadata: &triremev1.ObjectMeta{Name: "a"}}}},
		Classes: []*triremev1.PodClass{{Id: 1, Pod: &triremev1.Pod{}}},
	})
	return triremev1.NewScorePluginClient(connection)
}

func threeCopies(t *testing.T, client triremev1.ScorePluginClient) *triremev1.ScoreCopiesResponse {
	t.Helper()
	response, err := client.ScoreCopies(context.Background(), &triremev1.ScoreCopiesRequest{
		Cycle: &triremev1.Cycle{Fence: fence, Generation: 1, ConfigHash: 1, Profile: "p", PodClass: 1},
		Nodes: &triremev1.NodeSelection{Slots: []uint32{0}}, Copies: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// A score that counts the pods of the node and the added ones would count each copy twice.
func TestCopiesAreAmongThePodsOfTheNodeAndNowhereElse(t *testing.T) {
	if got := threeCopies(t, following(t, false, nil)).GetScores(); !slices.Equal(got, []int64{90, 80, 70}) {
		t.Errorf("scores %v", got)
	}
}

// The cluster has no copies, so all pods of a batch would pile up on the best node, and nothing would say so.
func TestAScoreThatReadsTheClusterAnswersNoCopies(t *testing.T) {
	client := following(t, true, nil)
	response := threeCopies(t, client)
	text := strings.Join(response.GetStatus().GetMessages(), "")
	if response.GetStatus().GetCode() != triremev1.Code_CODE_ERROR || len(response.GetScores()) != 0 ||
		!strings.Contains(text, "NodeInfos().Get") || !strings.Contains(text, "Definition.ScoreCopies") {
		t.Errorf("%v", response)
	}
	scored, err := client.Score(context.Background(), &triremev1.ScoreRequest{
		Cycle: &triremev1.Cycle{Fence: fence, Generation: 1, ConfigHash: 1, Profile: "p", PodClass: 1},
		Nodes: &triremev1.NodeSelection{Slots: []uint32{0}},
	})
	if err != nil || !slices.Equal(scored.GetScores(), []int64{100}) {
		t.Errorf("Score itself: %v, %v", scored, err)
	}
}

// Who looks up nodes there, and counts no pods, would be slow for nothing.
func TestAnAuthorWhoSaysSoMayReadTheCluster(t *testing.T) {
	yes := true
	if got := threeCopies(t, following(t, true, &yes)).GetScores(); !slices.Equal(got, []int64{100, 100, 100}) {
		t.Errorf("scores %v", got)
	}
}
