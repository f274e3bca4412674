package trireme

import (
	"context"
	"slices"
	"strings"
	"testing"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

var fence = &triremev1.Fence{Epoch: 4, SchedulerId: "s"}

// follow opens a stream to a plugin.
func follow(t *testing.T, client triremev1.SnapshotFollowerClient) triremev1.SnapshotFollower_SyncClient {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := client.Sync(ctx)
	if err != nil {
		t.Fatal(err)
	}
	hello := &triremev1.Hello{Fence: fence}
	if err := stream.Send(&triremev1.SyncRequest{Message: &triremev1.SyncRequest_Hello{Hello: hello}}); err != nil {
		t.Fatal(err)
	}
	return stream
}

func send(t *testing.T, stream triremev1.SnapshotFollower_SyncClient, delta *triremev1.Delta) uint64 {
	t.Helper()
	if err := stream.Send(&triremev1.SyncRequest{Message: &triremev1.SyncRequest_Delta{Delta: delta}}); err != nil {
		t.Fatal(err)
	}
	response, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return response.GetAppliedGeneration()
}

func pods(rows, slots []uint32) *triremev1.PodColumns {
	out := &triremev1.PodColumns{Row: rows, Slot: slots}
	for range rows {
		out.PodClass, out.Flags, out.StartTimeS = append(out.PodClass, 1), append(out.Flags, 0), append(out.StartTimeS, 0)
		out.Uid, out.Name = append(out.Uid, "u"), append(out.Name, "p")
	}
	return out
}

// A follower that misses a change answers about a cluster that is not there.
func TestAFollowerAnswersFromTheStream(t *testing.T) {
	connection := served(t, Definition{Plugin: counting{}, DependsOn: NodePods, NodeData: Snapshot}, Options{})
	stream := follow(t, triremev1.NewSnapshotFollowerClient(connection))
	filter := triremev1.NewFilterPluginClient(connection)
	nodes := []*triremev1.NodeEntry{
		{Slot: 0, Node: &triremev1.Node{Metadata: &triremev1.ObjectMeta{Name: "a"}}},
		{Slot: 2, Node: &triremev1.Node{Metadata: &triremev1.ObjectMeta{Name: "c"}}},
	}
	class := &triremev1.PodClass{Id: 1, Pod: &triremev1.Pod{Metadata: &triremev1.ObjectMeta{Namespace: "shop"}}}
	capacity := func(generation uint64) []int32 {
		response, err := filter.Filter(context.Background(), &triremev1.FilterRequest{
			Cycle: &triremev1.Cycle{Fence: fence, Generation: generation}, Count: 9,
			Nodes: &triremev1.NodeSelection{Slots: []uint32{0, 2}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return response.GetColumns().GetCapacity()
	}
	full := &triremev1.Delta{
		Reset_: true, ToGeneration: 3, Nodes: nodes, Classes: []*triremev1.PodClass{class},
		Pods: pods([]uint32{0, 1}, []uint32{0, 0}),
	}
	if applied := send(t, stream, full); applied != 3 {
		t.Errorf("applied %d", applied)
	}
	if got := capacity(3); !slices.Equal(got, []int32{2, 4}) {
		t.Errorf("after the full sync: %v", got)
	}
	moved := &triremev1.Delta{
		FromGeneration: 3, ToGeneration: 4, RemovedPods: []uint32{0}, Pods: pods([]uint32{1, 5}, []uint32{2, 2}),
	}
	send(t, stream, moved)
	if got := capacity(4); !slices.Equal(got, []int32{4, 2}) {
		t.Errorf("after a change: %v", got)
	}
	dry, err := filter.FilterDryRun(context.Background(), &triremev1.FilterDryRunRequest{
		Cycle: &triremev1.Cycle{Fence: fence, Generation: 4},
		Runs:  []*triremev1.DryRun{{Slot: 2, RemovedRows: []uint32{1, 5}}, {Slot: 2, AddedClasses: []uint32{1, 1}}},
	})
	if err != nil || !slices.Equal(dry.GetColumns().GetStatusIndex(), []uint32{0, 1}) {
		t.Errorf("dry runs: %v, %v", dry, err)
	}
	if text := dry.GetColumns().GetStatuses()[0].GetMessages()[0]; !strings.Contains(text, "FilterCapacity returned 0") {
		t.Errorf("a success without room: %q", text)
	}
}

// What the plugin sees of a pod on a node is its class, and what is its own.
func TestPodsOnANodeHaveTheirNames(t *testing.T) {
	cluster := newCluster()
	err := cluster.apply(&triremev1.Delta{
		Reset_: true, ToGeneration: 1,
		Nodes:   []*triremev1.NodeEntry{{Slot: 1, Node: &triremev1.Node{Metadata: &triremev1.ObjectMeta{Name: "a"}}}},
		Classes: []*triremev1.PodClass{{Id: 1, Pod: &triremev1.Pod{Metadata: &triremev1.ObjectMeta{Namespace: "shop"}}}},
		Pods: &triremev1.PodColumns{
			Row: []uint32{4}, PodClass: []uint32{1}, Slot: []uint32{1}, Uid: []string{"u"}, Name: []string{"cart"},
			StartTimeS: []int64{7}, Flags: []uint32{1},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	node, err := cluster.Get("a")
	if err != nil {
		t.Fatal(err)
	}
	pod := node.GetPods()[0].GetPod()
	if pod.Namespace != "shop" || pod.Name != "cart" || pod.Spec.NodeName != "a" || pod.Status.StartTime.Unix() != 7 ||
		pod.DeletionTimestamp == nil {
		t.Errorf("pod %v", pod)
	}
	claim := &triremev1.PersistentVolumeClaim{Metadata: &triremev1.ObjectMeta{Namespace: "shop", Name: "disk"}}
	object := &triremev1.ClusterObject{Object: &triremev1.ClusterObject_PersistentVolumeClaim{PersistentVolumeClaim: claim}}
	next := &triremev1.Delta{
		FromGeneration: 1, ToGeneration: 2, RemovedPods: []uint32{4}, RemovedSlots: []uint32{1},
		Objects: []*triremev1.ClusterObject{object},
	}
	if err := cluster.apply(next); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Get("a"); err == nil || cluster.infos([]uint32{1})[0].Node() != nil {
		t.Error("a node that is gone is still there")
	}
	if found := cluster.ofKind("persistent_volume_claim"); len(found) != 1 {
		t.Errorf("claims: %v", found)
	}
	gone := &triremev1.ObjectKey{Kind: "persistent_volume_claim", Namespace: "shop", Name: "disk"}
	last := &triremev1.Delta{FromGeneration: 2, ToGeneration: 3, RemovedObjects: []*triremev1.ObjectKey{gone}}
	if err := cluster.apply(last); err != nil || len(cluster.ofKind("persistent_volume_claim")) != 0 {
		t.Errorf("after the claim was deleted: %v", err)
	}
	if err := cluster.apply(&triremev1.Delta{FromGeneration: 9}); err == nil {
		t.Error("a delta of another generation was applied")
	}
	var _ framework.SharedLister = cluster
}
