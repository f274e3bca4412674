package main

import (
	"context"
	"crypto/rand"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"trireme.dev/sdk/go/triremev1"
)

// instance identifies this run of the process.
var instance = rand.Text()

// phase serves ScorePhase.
type phase struct {
	triremev1.UnimplementedScorePhaseServer
	follower *follower
}

func newPhase(stopping <-chan struct{}) *phase {
	return &phase{follower: newFollower(stopping)}
}

// Prepare waits for the cluster; scores are made when they are asked for.
func (p *phase) Prepare(
	ctx context.Context, request *triremev1.ScorePhasePrepareRequest,
) (*triremev1.ScorePhasePrepareResponse, error) {
	if err := p.follower.await(ctx, request.GetCycle()); err != nil {
		return nil, err
	}
	defer p.follower.mu.Unlock()
	if _, err := p.scorer(request.GetCycle()); err != nil {
		return nil, err
	}
	return &triremev1.ScorePhasePrepareResponse{EvaluatedGeneration: p.follower.cluster.generation}, nil
}

// Place chooses the nodes of the next pods.
func (p *phase) Place(ctx context.Context, request *triremev1.PlaceRequest) (*triremev1.PlaceResponse, error) {
	began := time.Now()
	cycle := request.GetCycle()
	if err := p.follower.await(ctx, cycle); err != nil {
		return nil, err
	}
	defer p.follower.mu.Unlock()
	cluster := p.follower.cluster
	by, err := p.scorer(cycle)
	if err != nil {
		return nil, err
	}
	if request.GetCount() == 0 {
		return nil, status.Error(codes.InvalidArgument, "count: must be at least 1")
	}
	capacities, err := cluster.answers.store(answerKey{cycle.GetProfile(), cycle.GetPodClass()}, request.GetCapacities())
	if err != nil {
		return nil, err
	}
	count := int(request.GetCount())
	if len(request.GetConstraints()) > 0 {
		count = 1 // a placement may admit other nodes, or refuse them: filter is to say
	}
	out := &triremev1.PlaceResponse{EvaluatedGeneration: cluster.generation}
	candidates := candidates(cluster.nodes, capacities, request.GetExtraScores())
	if len(candidates) > 1 {
		candidates = sample(candidates, cluster.alive, by.percentage, request.GetSeed())
		out.Slots, out.Totals = newPlacer(by, cluster.nodes, candidates).place(count)
		out.EvaluatedPlugins = by.evaluated()
		out.Timings = []*triremev1.Timing{{
			ExtensionPoint: "Score", Code: triremev1.Code_CODE_SUCCESS, DurationUs: uint32(time.Since(began).Microseconds()),
		}}
	} else if len(candidates) == 1 {
		for range min(count, int(candidates[0].capacity)) { // nothing is scored where there is no choice
			out.Slots, out.Totals = append(out.Slots, candidates[0].slot), append(out.Totals, 0)
		}
	}
	out.More = len(out.Slots) > 0 && count < int(request.GetCount())
	return out, nil
}

// candidates are the nodes that take pods by filter's answer. What is no node here cannot be chosen here: filter may be
// ahead of this replica, or behind it.
func candidates(nodes []node, capacities *answer, extra []int64) []candidate {
	var out []candidate
	for slot := range min(len(nodes), len(capacities.open)) {
		if capacities.open[slot] <= 0 || nodes[slot].object == nil {
			continue
		}
		each := candidate{slot: uint32(slot), capacity: capacities.open[slot]}
		if slot < len(extra) {
			each.extra = extra[slot]
		}
		out = append(out, each)
	}
	return out
}

// scorer is the scorer of the cycle's profile and class. The caller holds the lock.
func (p *phase) scorer(cycle *triremev1.Cycle) (*scorer, error) {
	by, ok := p.follower.configuration.profiles[cycle.GetProfile()]
	if !ok {
		return nil, status.Errorf(codes.InvalidArgument, "cycle.profile: there is no profile %q", cycle.GetProfile())
	}
	of, ok := p.follower.cluster.classes[cycle.GetPodClass()]
	if !ok {
		return nil, status.Errorf(codes.InvalidArgument, "cycle.pod_class: there is no class %d", cycle.GetPodClass())
	}
	return newScorer(by, of), nil
}

// plugins serves PluginService.
type plugins struct {
	triremev1.UnimplementedPluginServiceServer
}

// GetPluginInfo lists the plugins that this phase hosts.
func (plugins) GetPluginInfo(
	context.Context, *triremev1.GetPluginInfoRequest,
) (*triremev1.GetPluginInfoResponse, error) {
	out := &triremev1.GetPluginInfoResponse{Instance: instance}
	points := []triremev1.ExtensionPoint{
		triremev1.ExtensionPoint_EXTENSION_POINT_PRE_SCORE, triremev1.ExtensionPoint_EXTENSION_POINT_SCORE,
	}
	for _, name := range hosted {
		out.Plugins = append(out.Plugins, &triremev1.PluginInfo{Name: name, ExtensionPoints: points})
	}
	return out, nil
}

// GetPluginStatistics is empty: this phase calls no remote plugins.
func (plugins) GetPluginStatistics(
	context.Context, *triremev1.GetPluginStatisticsRequest,
) (*triremev1.GetPluginStatisticsResponse, error) {
	return &triremev1.GetPluginStatisticsResponse{}, nil
}
