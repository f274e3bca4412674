package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"trireme.dev/sdk/go/triremev1"
)

func scores(names ...string) *triremev1.Profile {
	set := &triremev1.PluginSet{ExtensionPoint: triremev1.ExtensionPoint_EXTENSION_POINT_SCORE}
	for _, name := range names {
		set.Plugins = append(set.Plugins, &triremev1.WeightedPlugin{Name: name, Weight: 1})
	}
	return &triremev1.Profile{SchedulerName: "default-scheduler", PluginSets: []*triremev1.PluginSet{set}}
}

func withArgs(plugin, args string) *triremev1.Profile {
	profile := scores(plugin)
	profile.PluginArgs = []*triremev1.PluginArgs{{Name: plugin, ArgsJson: []byte(args)}}
	return profile
}

// Pods must not be placed by other scores than the configuration says.
func TestWhatItDoesNotDoIsRefusedByName(t *testing.T) {
	ratio := `{"scoringStrategy": {"type": "RequestedToCapacityRatio"}}`
	gpu := `{"scoringStrategy": {"resources": [{"name": "cpu"}, {"name": "nvidia.com/gpu"}]}}`
	for expected, profile := range map[string]*triremev1.Profile{
		"score plugin ImageLocality is not part of this score phase":               scores(fitName, "ImageLocality"),
		"NodeResourcesFit: scoringStrategy.type: RequestedToCapacityRatio is not":  withArgs(fitName, ratio),
		"NodeResourcesFit: scoringStrategy.resources[1].name: nvidia.com/gpu is":   withArgs(fitName, gpu),
		"NodeResourcesBalancedAllocation: resources[0].name: example.com/a is not": withArgs(balancedName, `{"resources": [{"name": "example.com/a"}]}`),
	} {
		_, err := configure(&triremev1.Configuration{Profiles: []*triremev1.Profile{profile}})
		if err == nil || !strings.Contains(err.Error(), expected) || !strings.HasPrefix(err.Error(), "profile default-scheduler") {
			t.Errorf("%v, not %q", err, expected)
		}
	}
	_, err := configure(&triremev1.Configuration{FeatureGates: map[string]bool{"TopologyAwareWorkloadScheduling": true}})
	if err == nil || !strings.Contains(err.Error(), "TopologyAwareWorkloadScheduling is not supported") {
		t.Error(err)
	}
	// Arguments of plugins that do not score here do not matter.
	profile := withArgs(fitName, ratio)
	profile.PluginSets = nil
	if _, err := configure(&triremev1.Configuration{Profiles: []*triremev1.Profile{profile}}); err != nil {
		t.Error(err)
	}
}

// running is a phase that follows a cluster of nodes in slots 0, 1, …, at generation 3, with one class of pods.
func running(t *testing.T, nodes int) (*phase, *triremev1.Cycle) {
	t.Helper()
	p := newPhase(nil)
	fence := &triremev1.Fence{Epoch: 7, SchedulerId: "a"}
	hello := &triremev1.Hello{
		Fence: fence, ConfigHash: 5, Configuration: &triremev1.Configuration{Profiles: []*triremev1.Profile{scores(hosted...)}},
	}
	stream, err := p.follower.accept(hello, func(metadata.MD) {})
	if err != nil {
		t.Fatal(err)
	}
	delta := &triremev1.Delta{Reset_: true, ToGeneration: 3, Classes: []*triremev1.PodClass{{Id: 1, Pod: &triremev1.Pod{}}}}
	for slot := range nodes {
		delta.Nodes = append(delta.Nodes, &triremev1.NodeEntry{Slot: uint32(slot), Node: &triremev1.Node{}})
	}
	if _, _, err := p.follower.take(stream, delta); err != nil {
		t.Fatal(err)
	}
	return p, &triremev1.Cycle{Fence: fence, Generation: 3, ConfigHash: 5, Profile: "default-scheduler", PodClass: 1}
}

func columns(capacities ...int32) *triremev1.NodeColumns {
	return &triremev1.NodeColumns{
		Generation: 3, Size: uint32(len(capacities)), StatusIndex: make([]uint32, len(capacities)), Capacity: capacities,
	}
}

func place(t *testing.T, p *phase, request *triremev1.PlaceRequest) []uint32 {
	t.Helper()
	answer, err := p.Place(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.GetSlots()) != len(answer.GetTotals()) {
		t.Errorf("%d slots and %d totals", len(answer.GetSlots()), len(answer.GetTotals()))
	}
	return slices.Sorted(slices.Values(answer.GetSlots()))
}

// A node that takes no more must not be chosen, nor one that is no node here.
func TestNodesTakeAsManyPodsAsFilterSays(t *testing.T) {
	p, cycle := running(t, 3)
	got := place(t, p, &triremev1.PlaceRequest{Cycle: cycle, Count: 9, Capacities: columns(1, 0, 2, 5)})
	if !slices.Equal(got, []uint32{0, 2, 2}) {
		t.Errorf("slots: %v", got)
	}
}

// Where the frontend sends only what changed, the rest must be what it was.
func TestAPatchChangesTheAnswerBefore(t *testing.T) {
	p, cycle := running(t, 3)
	place(t, p, &triremev1.PlaceRequest{Cycle: cycle, Count: 1, Capacities: columns(1, 1, 1)})
	patch := &triremev1.NodeColumns{
		Generation: 4, BaseGeneration: 3, Size: 3, Slots: []uint32{1}, StatusIndex: []uint32{0}, Capacity: []int32{0},
	}
	got := place(t, p, &triremev1.PlaceRequest{Cycle: cycle, Count: 9, Capacities: patch})
	if !slices.Equal(got, []uint32{0, 2}) {
		t.Errorf("slots: %v", got)
	}
	_, err := p.Place(context.Background(), &triremev1.PlaceRequest{Cycle: cycle, Count: 1, Capacities: patch})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a patch to another answer: %v", err)
	}
}

// Under a domain constraint each placement may change where the next may go.
func TestUnderAConstraintOnePodIsPlacedAtATime(t *testing.T) {
	p, cycle := running(t, 2)
	request := &triremev1.PlaceRequest{
		Cycle: cycle, Count: 3, Capacities: columns(2, 2), Constraints: []*triremev1.DomainConstraint{{}},
	}
	answer, err := p.Place(context.Background(), request)
	if err != nil || len(answer.GetSlots()) != 1 || !answer.GetMore() {
		t.Errorf("%v, %v", answer, err)
	}
}

// A call that cannot be answered from what is here must say why, so that the frontend does what helps.
func TestCallsThatCannotBeAnsweredAreRefused(t *testing.T) {
	p, cycle := running(t, 1)
	for text, change := range map[string]func(*triremev1.PlaceRequest){
		"fence.epoch: 6 is over":                        func(r *triremev1.PlaceRequest) { r.Cycle.Fence = &triremev1.Fence{Epoch: 6, SchedulerId: "a"} },
		"cycle.config_hash: not this configuration":     func(r *triremev1.PlaceRequest) { r.Cycle.ConfigHash = 6 },
		`cycle.profile: there is no profile "x"`:        func(r *triremev1.PlaceRequest) { r.Cycle.Profile = "x" },
		"cycle.pod_class: there is no class 2":          func(r *triremev1.PlaceRequest) { r.Cycle.PodClass = 2 },
		"count: must be at least 1":                     func(r *triremev1.PlaceRequest) { r.Count = 0 },
		"capacity: has 1 entries, must have 2":          func(r *triremev1.PlaceRequest) { r.Capacities.Size, r.Capacities.StatusIndex = 2, []uint32{0, 0} },
		"status_index: 1 is beyond the 0 statuses":      func(r *triremev1.PlaceRequest) { r.Capacities.StatusIndex = []uint32{1} },
		"cycle.generation: 4 is not reached, the clust": func(r *triremev1.PlaceRequest) { r.Cycle.Generation = 4 },
	} {
		request := &triremev1.PlaceRequest{Cycle: clone(cycle), Count: 1, Capacities: columns(1)}
		change(request)
		ctx, cancel := context.WithTimeout(context.Background(), replyTime+10*time.Millisecond)
		_, err := p.Place(ctx, request)
		cancel()
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, not %q", err, text)
		}
	}
}

func clone(cycle *triremev1.Cycle) *triremev1.Cycle {
	return &triremev1.Cycle{
		Fence: cycle.GetFence(), Generation: cycle.GetGeneration(), ConfigHash: cycle.GetConfigHash(),
		Profile: cycle.GetProfile(), PodClass: cycle.GetPodClass(),
	}
}

// A delta that does not follow must lead to a full sync, and a deposed leader must stay one.
func TestTheStreamIsChecked(t *testing.T) {
	p, _ := running(t, 1)
	if _, _, err := p.follower.take(1, &triremev1.Delta{FromGeneration: 2, ToGeneration: 3}); status.Code(err) != codes.FailedPrecondition {
		t.Error(err)
	}
	if _, _, err := p.follower.take(0, &triremev1.Delta{}); status.Code(err) != codes.Aborted {
		t.Error(err)
	}
	_, err := p.follower.accept(&triremev1.Hello{Fence: &triremev1.Fence{Epoch: 6, SchedulerId: "a"}}, func(metadata.MD) {})
	if status.Code(err) != codes.FailedPrecondition {
		t.Error(err)
	}
	if _, err := p.follower.accept(&triremev1.Hello{Fence: &triremev1.Fence{Epoch: 1, SchedulerId: "b"}}, func(metadata.MD) {}); err != nil {
		t.Error(err)
	}
}

// What extenders say must count, and where there is no choice nothing is scored.
func TestExtraScoresDecideAmongEquals(t *testing.T) {
	p, cycle := running(t, 3)
	for favourite := range uint32(3) {
		extra := make([]int64, 3)
		extra[favourite] = 1
		got := place(t, p, &triremev1.PlaceRequest{Cycle: cycle, Count: 1, Capacities: columns(1, 1, 1), ExtraScores: extra})
		if !slices.Equal(got, []uint32{favourite}) {
			t.Errorf("slots: %v, not %d", got, favourite)
		}
	}
	answer, err := p.Place(context.Background(), &triremev1.PlaceRequest{Cycle: cycle, Count: 5, Capacities: columns(0, 2, 0)})
	if err != nil || !slices.Equal(answer.GetSlots(), []uint32{1, 1}) || !slices.Equal(answer.GetTotals(), []int64{0, 0}) {
		t.Errorf("%v, %v", answer, err)
	}
}
