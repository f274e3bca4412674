package trireme

import (
	"context"
	"fmt"

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

// Score calls the method for each node.
func (s scoreServer) Score(ctx context.Context, request *triremev1.ScoreRequest) (*triremev1.ScoreResponse, error) {
	call, err := s.begin(ctx, request.GetCycle(), request.GetCycle().GetState())
	if err != nil {
		return nil, err
	}
	plugin, ok := call.plugin.(framework.ScorePlugin)
	if !ok {
		return nil, s.unimplemented("Score")
	}
	nodes := s.nodes(request.GetNodes())
	scores := make([]int64, len(nodes))
	for i, node := range nodes {
		if i%nodesBetweenChecks == 0 && ctx.Err() != nil {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		score, answer := plugin.Score(ctx, call.state, call.pod, node)
		if !answer.IsSuccess() {
			return &triremev1.ScoreResponse{Status: s.status("Score", answer, mayNotRefuse)}, nil
		}
		scores[i] = score
	}
	if wrong := s.check("Score", scores, s.info.GetPlugins()[0].GetNormalization()); wrong != nil {
		return &triremev1.ScoreResponse{Status: wrong}, nil
	}
	return &triremev1.ScoreResponse{Status: s.status("Score", nil, 0), Scores: scores}, nil
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
