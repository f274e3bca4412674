// Also change: internal/trireme/sdk/scoring.py (which names the other languages' files).

package trireme

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

// scoreServer serves ScorePlugin.
type scoreServer struct {
	triremev1.UnimplementedScorePluginServer
	*service
}

// PreScore calls the method.
func (s scoreServer) PreScore(
	ctx context.Context, request *triremev1.PreScoreRequest,
) (*triremev1.PreScoreResponse, error) {
	call, err := s.begin(ctx, request.GetCycle(), request.GetCycle().GetState())
	if err != nil {
		return nil, err
	}
	plugin, ok := call.plugin.(framework.PreScorePlugin)
	if !ok {
		return nil, s.unimplemented("PreScore")
	}
	answer := plugin.PreScore(ctx, call.state, call.pod, s.nodes(request.GetNodes()))
	response := &triremev1.PreScoreResponse{Status: s.status("PreScore", answer, maySkip|mayNotRefuse)}
	if response.State, err = call.state.encode(); err != nil {
		return nil, s.failed("PreScore", err)
	}
	return response, nil
}

// beginScore begins a call of a plugin that scores.
func (s scoreServer) beginScore(ctx context.Context, cycle *triremev1.Cycle) (*call, framework.ScorePlugin, error) {
	call, err := s.begin(ctx, cycle, cycle.GetState())
	if err != nil {
		return nil, nil, err
	}
	plugin, ok := call.plugin.(framework.ScorePlugin)
	if !ok {
		return nil, nil, s.unimplemented("Score")
	}
	return call, plugin, nil
}

// Score calls the method for each node.
func (s scoreServer) Score(ctx context.Context, request *triremev1.ScoreRequest) (*triremev1.ScoreResponse, error) {
	call, plugin, err := s.beginScore(ctx, request.GetCycle())
	if err != nil {
		return nil, err
	}
	scores, answer, err := call.scores(ctx, plugin, s.nodes(request.GetNodes()), nil)
	if err != nil {
		return nil, err
	}
	return &triremev1.ScoreResponse{Status: answer, Scores: scores}, nil
}

// ScoreCopies calls Score for each node with one copy of the pod there, with two, and so on.
func (s scoreServer) ScoreCopies(
	ctx context.Context, request *triremev1.ScoreCopiesRequest,
) (*triremev1.ScoreCopiesResponse, error) {
	call, plugin, err := s.beginScore(ctx, request.GetCycle())
	if err != nil {
		return nil, err
	}
	if request.GetCopies() == 0 {
		return nil, status.Error(codes.InvalidArgument, "copies: 0, must be at least 1")
	}
	scores, answer, err := call.scores(ctx, plugin, call.withCopies(request), call.readsOfCluster())
	if err != nil {
		return nil, err
	}
	return &triremev1.ScoreCopiesResponse{Status: answer, Scores: scores}, nil
}

// readsOfCluster returns what says after a call of Score whether the cluster has been read since, which has no copies of the
// pod: then what Score returned is not for nodes with copies. It is nil where the plugin follows no cluster, or its author has
// said that the scores are right all the same.
func (c *call) readsOfCluster() func() *triremev1.Status {
	if c.follower == nil || c.definition.ScoreCopies != nil && *c.definition.ScoreCopies {
		return nil
	}
	before := c.reads.count.Load()
	return func() *triremev1.Status {
		if c.reads.count.Load() == before {
			return nil
		}
		err := fmt.Errorf("ScoreCopies: %s of the handle was called during Score, and the cluster does not have the copies of "+
			"the pod, so pods are placed one at a time: set Definition.ScoreCopies to true if Score counts no pods of the "+
			"cluster, or to false if it does", *c.reads.latest.Load())
		c.reads.logged.Do(func() { logger().Warn(err.Error(), "plugin", c.name) })
		return c.status("Score", framework.AsStatus(err), mayNotRefuse)
	}
}

// scores calls Score for each node; the status where it is no success, a score is outside its range, or `wrong` says what is
// wrong with it (nil: nothing may be).
func (c *call) scores(
	ctx context.Context, plugin framework.ScorePlugin, nodes []framework.NodeInfo, wrong func() *triremev1.Status,
) ([]int64, *triremev1.Status, error) {
	scores := make([]int64, len(nodes))
	for i, node := range nodes {
		if i%nodesBetweenChecks == 0 && ctx.Err() != nil {
			return nil, nil, status.FromContextError(ctx.Err()).Err()
		}
		score, answer := plugin.Score(ctx, c.state, c.pod, node)
		if !answer.IsSuccess() {
			return nil, c.status("Score", answer, mayNotRefuse), nil
		}
		if wrong != nil {
			if failed := wrong(); failed != nil {
				return nil, failed, nil
			}
		}
		scores[i] = score
	}
	if wrong := c.check("Score", scores, c.info.GetPlugins()[0].GetNormalization()); wrong != nil {
		return nil, wrong, nil
	}
	return scores, c.status("Score", nil, 0), nil
}

// withCopies returns each node of the request with one copy of the pod, with two, …, one after the other. Copies are among
// the node's pods if the plugin follows the cluster, and else AddedPods.
func (c *call) withCopies(request *triremev1.ScoreCopiesRequest) []framework.NodeInfo {
	if c.follower != nil {
		return c.follower.withCopies(request.GetNodes().GetSlots(), request.GetCycle().GetPodClass(), request.GetCopies())
	}
	added := make([]framework.PodInfo, request.GetCopies())
	for i := range added {
		added[i] = podInfo{c.pod}
	}
	out := make([]framework.NodeInfo, 0, len(request.GetNodes().GetNodes())*len(added))
	for _, view := range request.GetNodes().GetNodes() {
		for copies := range added {
			out = append(out, &nodeInfo{
				name: view.GetName(), message: view.GetNode(), json: view.GetJson(), added: added[:copies+1],
			})
		}
	}
	return out
}

// NormalizeScore calls the method with the plugin's own scores.
func (s scoreServer) NormalizeScore(
	ctx context.Context, request *triremev1.NormalizeScoreRequest,
) (*triremev1.NormalizeScoreResponse, error) {
	call, err := s.begin(ctx, request.GetCycle(), request.GetCycle().GetState())
	if err != nil {
		return nil, err
	}
	extensions := scoreExtensions(call.plugin)
	if extensions == nil {
		return nil, s.unimplemented("NormalizeScore")
	}
	nodes := s.nodes(request.GetNodes())
	list := make(framework.NodeScoreList, len(request.GetScores()))
	for i, score := range request.GetScores() {
		list[i].Score = score
		if i < len(nodes) {
			list[i].Name = nodes[i].Name()
		}
	}
	answer := extensions.NormalizeScore(ctx, call.state, call.pod, list)
	if !answer.IsSuccess() {
		return &triremev1.NormalizeScoreResponse{Status: s.status("NormalizeScore", answer, mayNotRefuse)}, nil
	}
	scores := make([]int64, len(list))
	for i, score := range list {
		scores[i] = score.Score
	}
	if wrong := s.check("NormalizeScore", scores, None); wrong != nil {
		return &triremev1.NormalizeScoreResponse{Status: wrong}, nil
	}
	return &triremev1.NormalizeScoreResponse{Status: s.status("NormalizeScore", nil, 0), Scores: scores}, nil
}

// The largest raw score that can be multiplied by 100.
const maxRawScore = 92233720368547758

// check returns an error where a score is outside its range.
func (s *service) check(method string, scores []int64, normalization Normalization) *triremev1.Status {
	highest := int64(maxRawScore)
	switch normalization {
	case triremev1.Normalization_NORMALIZATION_CUSTOM:
		return nil
	case None, triremev1.Normalization_NORMALIZATION_UNSPECIFIED:
		highest = framework.MaxScore
	}
	for i, score := range scores {
		if score < 0 || score > highest {
			err := fmt.Errorf("%s returned %d for node %d of the call: must be 0 to %d", method, score, i, highest)
			return s.status(method, framework.AsStatus(err), 0)
		}
	}
	return nil
}
