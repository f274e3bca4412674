// Also change: internal/trireme/sdk/filtering.py (which names the other languages' files).

package trireme

import (
	"context"
	"fmt"
	"math"
	"sort"

	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

// So often a call about many nodes looks whether its caller has given up.
const nodesBetweenChecks = 256

// filterServer serves FilterPlugin.
type filterServer struct {
	triremev1.UnimplementedFilterPluginServer
	*service
}

// PreFilter calls the method; without one every pod passes.
func (s filterServer) PreFilter(
	ctx context.Context, request *triremev1.PreFilterRequest,
) (*triremev1.PreFilterResponse, error) {
	call, err := s.begin(ctx, request.GetCycle(), request.GetCycle().GetState())
	if err != nil {
		return nil, err
	}
	plugin, ok := call.plugin.(framework.PreFilterPlugin)
	if !ok {
		return nil, s.unimplemented("PreFilter")
	}
	var nodes []framework.NodeInfo
	if s.follower != nil {
		nodes, _ = s.follower.List()
	}
	result, answer := plugin.PreFilter(ctx, call.state, call.pod, nodes)
	response := &triremev1.PreFilterResponse{Status: s.status("PreFilter", answer, maySkip)}
	if answer.IsSuccess() && !result.AllNodes() {
		response.Narrowed, response.NodeNames = true, result.NodeNames.UnsortedList()
		sort.Strings(response.NodeNames)
	}
	if response.State, err = call.state.encode(); err != nil {
		return nil, s.failed("PreFilter", err)
	}
	return response, nil
}

// Filter calls the method for each node.
func (s filterServer) Filter(ctx context.Context, request *triremev1.FilterRequest) (*triremev1.FilterResponse, error) {
	call, err := s.begin(ctx, request.GetCycle(), request.GetCycle().GetState())
	if err != nil {
		return nil, err
	}
	filter := s.filter(call.plugin, max(int(request.GetCount()), 1))
	if filter == nil {
		return nil, s.unimplemented("Filter")
	}
	nodes := s.nodes(request.GetNodes())
	columns := call.newColumns(len(nodes))
	for i, node := range nodes {
		if i%nodesBetweenChecks == 0 && ctx.Err() != nil {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		columns.add(filter(ctx, call.state, call.pod, node))
	}
	return &triremev1.FilterResponse{Columns: columns.message}, nil
}

// nodeFilter is either form of Filter: the status, and how many copies fit.
type nodeFilter func(context.Context, framework.CycleState, *v1.Pod, framework.NodeInfo) (*framework.Status, int)

// filter returns the plugin's Filter, or nil. One that does not count lets one copy in at a time, if pods on the node
// matter to it: the next one has to be asked about again.
func (s *service) filter(plugin framework.Plugin, wanted int) nodeFilter {
	if counting, ok := plugin.(framework.CapacityFilterPlugin); ok {
		return func(ctx context.Context, state framework.CycleState, pod *v1.Pod, node framework.NodeInfo) (*framework.Status, int) {
			capacity, answer := counting.FilterCapacity(ctx, state, pod, node, wanted)
			return answer, capacity
		}
	}
	filtering, ok := plugin.(framework.FilterPlugin)
	if !ok {
		return nil
	}
	capacity := math.MaxInt32
	if s.definition.DependsOn != Node {
		capacity = 1
	}
	return func(ctx context.Context, state framework.CycleState, pod *v1.Pod, node framework.NodeInfo) (*framework.Status, int) {
		return filtering.Filter(ctx, state, pod, node), capacity
	}
}

// FilterDryRun calls Filter for each dry run, with PreFilter's state brought up to date by AddPod and RemovePod.
func (s filterServer) FilterDryRun(
	ctx context.Context, request *triremev1.FilterDryRunRequest,
) (*triremev1.FilterDryRunResponse, error) {
	call, err := s.begin(ctx, request.GetCycle(), request.GetCycle().GetState())
	if err != nil {
		return nil, err
	}
	filter := s.filter(call.plugin, 1)
	if filter == nil {
		return nil, s.unimplemented("Filter")
	}
	columns := call.newColumns(len(request.GetRuns()))
	for i, run := range request.GetRuns() {
		if i%nodesBetweenChecks == 0 && ctx.Err() != nil {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		node, err := s.dryRun(run)
		if err != nil {
			return nil, s.failed("FilterDryRun", fmt.Errorf("runs[%d]: %w", i, err))
		}
		state := call.state.Clone()
		if failed := s.extend(ctx, call, state, node); !failed.IsSuccess() {
			columns.add(failed, 0)
			continue
		}
		columns.add(filter(ctx, state, call.pod, node))
	}
	return &triremev1.FilterDryRunResponse{Columns: columns.message}, nil
}

func (s *service) dryRun(run *triremev1.DryRun) (*nodeInfo, error) {
	if s.follower != nil {
		return s.follower.dryRun(run), nil
	}
	view := run.GetNode()
	info := &nodeInfo{name: view.GetName(), message: view.GetNode(), json: view.GetJson()}
	for _, message := range run.GetRemovedPods() {
		pod, err := podFrom(message)
		if err != nil {
			return nil, err
		}
		info.removed = append(info.removed, podInfo{pod})
	}
	for _, message := range run.GetAddedPods() {
		pod, err := podFrom(message)
		if err != nil {
			return nil, err
		}
		info.added = append(info.added, podInfo{pod})
	}
	return info, nil
}

// extend calls AddPod and RemovePod, where the plugin has them.
func (s *service) extend(ctx context.Context, call *call, state framework.CycleState, node *nodeInfo) *framework.Status {
	plugin, ok := call.plugin.(framework.PreFilterPlugin)
	if !ok || plugin.PreFilterExtensions() == nil {
		return nil
	}
	extensions := plugin.PreFilterExtensions()
	for _, pod := range node.removed {
		if answer := extensions.RemovePod(ctx, state, call.pod, pod, node); !answer.IsSuccess() {
			return answer
		}
	}
	for _, pod := range node.added {
		if answer := extensions.AddPod(ctx, state, call.pod, pod, node); !answer.IsSuccess() {
			return answer
		}
	}
	return nil
}

// Reserve calls the method for each placement, in order.
func (s filterServer) Reserve(ctx context.Context, request *triremev1.ReserveRequest) (*triremev1.ReserveResponse, error) {
	call, err := s.begin(ctx, request.GetCycle(), nil)
	if err != nil {
		return nil, err
	}
	plugin, ok := call.plugin.(framework.ReservePlugin)
	if !ok {
		return nil, s.unimplemented("Reserve")
	}
	response := &triremev1.ReserveResponse{}
	for _, placement := range request.GetPlacements() {
		// The caller has given up, and its Unreserve may have come: nothing more may be taken.
		if err := ctx.Err(); err != nil {
			return nil, status.FromContextError(err).Err()
		}
		state, err := decodeState(s.definition.States, request.GetCycle().GetState())
		if err != nil {
			return nil, s.failed("Reserve", err)
		}
		answer := plugin.Reserve(ctx, state, call.identified(placement.GetPod()), placement.GetNodeName())
		reservation := &triremev1.Reservation{Status: s.status("Reserve", answer, 0)}
		if reservation.State, err = state.encode(); err != nil {
			return nil, s.failed("Reserve", err)
		}
		response.Reservations = append(response.Reservations, reservation)
	}
	return response, nil
}

// Unreserve calls the method for each placement, in order.
func (s filterServer) Unreserve(
	ctx context.Context, request *triremev1.UnreserveRequest,
) (*triremev1.UnreserveResponse, error) {
	call, err := s.begin(ctx, request.GetCycle(), request.GetCycle().GetState())
	if err != nil {
		return nil, err
	}
	plugin, ok := call.plugin.(framework.ReservePlugin)
	if !ok {
		return nil, s.unimplemented("Unreserve")
	}
	for _, placement := range request.GetPlacements() {
		pod := call.identified(placement.GetPod())
		s.scheduler.forget(pod.UID)
		plugin.Unreserve(ctx, call.state, pod, placement.GetNodeName())
	}
	return &triremev1.UnreserveResponse{}, nil
}

// PostFilter calls the method.
func (s filterServer) PostFilter(
	ctx context.Context, request *triremev1.PostFilterRequest,
) (*triremev1.PostFilterResponse, error) {
	call, err := s.begin(ctx, request.GetCycle(), request.GetCycle().GetState())
	if err != nil {
		return nil, err
	}
	plugin, ok := call.plugin.(framework.PostFilterPlugin)
	if !ok {
		return nil, s.unimplemented("PostFilter")
	}
	result, answer := plugin.PostFilter(ctx, call.state, call.pod, newNodeStatuses(s.service, request))
	response := &triremev1.PostFilterResponse{Status: s.status("PostFilter", answer, 0)}
	if result == nil {
		return response, nil
	}
	if answer.IsSuccess() {
		response.Actions = result.Actions
	}
	if info := result.NominatingInfo; info != nil && info.NominatingMode == framework.ModeOverride {
		response.NominatedNode, response.ClearNomination = info.NominatedNodeName, info.NominatedNodeName == ""
	}
	return response, nil
}
