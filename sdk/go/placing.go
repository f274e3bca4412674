// Also change: internal/trireme/sdk/placing.py (which names the other languages' files).

package trireme

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

// A scheduler without this feature does not know the extension point PlacementFeasible.
const placementFeasibleFeature = "placement-feasible"

// podGroupServer serves PodGroupPlugin.
type podGroupServer struct {
	triremev1.UnimplementedPodGroupPluginServer
	*service
}

// PlacementFeasible calls the method for each step, up to the first that ends the trial.
func (s podGroupServer) PlacementFeasible(
	ctx context.Context, request *triremev1.PlacementFeasibleRequest,
) (*triremev1.PlacementFeasibleResponse, error) {
	call, err := s.begin(ctx, request.GetCycle(), nil)
	if err != nil {
		return nil, err
	}
	plugin, ok := call.plugin.(framework.PlacementFeasiblePlugin)
	if !ok {
		return nil, s.unimplemented("PlacementFeasible")
	}
	tried, err := triedPods(request)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "tried: %v", err)
	}
	response := &triremev1.PlacementFeasibleResponse{}
	for _, step := range request.GetSteps() {
		trial := &framework.PlacementTrial{
			Name: request.GetPlacement(), NodeNames: request.GetNodeNames(), Tried: tried[:min(int(step.GetTried()), len(tried))],
		}
		progress := framework.PlacementProgress{
			Remaining: int(step.GetRemaining()), Scheduled: int(step.GetScheduled()), Unschedulable: int(step.GetUnschedulable()),
		}
		answer := plugin.PlacementFeasible(ctx, trial, podGroupInfo{request}, progress)
		if answer.IsRejected() && answer.Code() != framework.Unschedulable {
			answer = framework.AsStatus(fmt.Errorf("PlacementFeasible returned %s, which this step must not", answer.Code()))
		}
		if answer.IsWait() && answer.Message() == "" {
			answer = framework.AsStatus(errors.New("PlacementFeasible returned Wait without a reason"))
		}
		response.Statuses = append(response.Statuses, s.status("PlacementFeasible", answer, mayWait))
		if !answer.IsSuccess() && !answer.IsWait() {
			break
		}
	}
	return response, nil
}

// triedPods returns the pods with their fields, which several share.
func triedPods(request *triremev1.PlacementFeasibleRequest) ([]framework.TriedPod, error) {
	fields := make([]*v1.Pod, len(request.GetPodFields()))
	for i, message := range request.GetPodFields() {
		var err error
		if fields[i], err = podFrom(message); err != nil {
			return nil, err
		}
	}
	out := make([]framework.TriedPod, len(request.GetTried()))
	for i, message := range request.GetTried() {
		pod := &v1.Pod{}
		if at := int(message.GetFields()); at < len(fields) {
			pod = fields[at].DeepCopy()
		}
		metadata := message.GetPod().GetMetadata()
		pod.Namespace, pod.Name, pod.UID = metadata.GetNamespace(), metadata.GetName(), types.UID(metadata.GetUid())
		out[i] = framework.TriedPod{Pod: pod, NodeName: message.GetNodeName()}
	}
	return out, nil
}

// podGroupInfo is the group of a request.
type podGroupInfo struct {
	request *triremev1.PlacementFeasibleRequest
}

func (i podGroupInfo) metadata() *triremev1.ObjectMeta {
	if i.request.GetCompositePodGroup() != nil {
		return i.request.GetCompositePodGroup().GetMetadata()
	}
	return i.request.GetPodGroup().GetMetadata()
}

func (i podGroupInfo) GetName() string {
	return i.metadata().GetName()
}

func (i podGroupInfo) GetNamespace() string {
	return i.metadata().GetNamespace()
}

func (i podGroupInfo) GetUID() string {
	return i.metadata().GetUid()
}

func (i podGroupInfo) GetMinCount() int {
	return int(i.request.GetMinCount())
}

func (i podGroupInfo) GetPodGroup() *triremev1.PodGroup {
	return i.request.GetPodGroup()
}

func (i podGroupInfo) GetCompositePodGroup() *triremev1.CompositePodGroup {
	return i.request.GetCompositePodGroup()
}

// known returns the description without the extension points that the caller does not know.
func known(described *triremev1.GetPluginInfoResponse, features []string) *triremev1.GetPluginInfoResponse {
	if slices.Contains(features, placementFeasibleFeature) {
		return described
	}
	out := proto.Clone(described).(*triremev1.GetPluginInfoResponse)
	for _, info := range out.GetPlugins() {
		info.ExtensionPoints = slices.DeleteFunc(info.ExtensionPoints, func(point triremev1.ExtensionPoint) bool {
			return point == triremev1.ExtensionPoint_EXTENSION_POINT_PLACEMENT_FEASIBLE
		})
	}
	return out
}
