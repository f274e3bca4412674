// Also change: sdk/go/framework/events.go, internal/trireme/framework/cluster_event.py,
// docs/extension-points.md (names of events).
// Also change: internal/trireme/sdk/queueing.py (which names the other languages' files).

package trireme

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/klog/v2"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

// queueServer serves QueueService.
type queueServer struct {
	triremev1.UnimplementedQueueServiceServer
	*service
}

// PreEnqueue calls the method for each pod.
func (s queueServer) PreEnqueue(
	ctx context.Context, request *triremev1.PreEnqueueRequest,
) (*triremev1.PreEnqueueResponse, error) {
	made, err := s.configured(ctx, request.GetConfigHash(), request.GetProfile())
	if err != nil {
		return nil, err
	}
	plugin, ok := made.plugin.(framework.PreEnqueuePlugin)
	if !ok {
		return nil, s.unimplemented("PreEnqueue")
	}
	response := &triremev1.PreEnqueueResponse{}
	for _, message := range request.GetPods() {
		pod, err := podFrom(message)
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "pods: %v", err)
		}
		response.Statuses = append(response.Statuses, s.status("PreEnqueue", plugin.PreEnqueue(ctx, pod), 0))
	}
	return response, nil
}

// The most numbers in each part of a key.
const maxKeyNumbers = 16

// QueueSort calls SortKey for each pod; where that fails about a pod, its status says so, and the others have keys.
func (s queueServer) QueueSort(
	ctx context.Context, request *triremev1.QueueSortRequest,
) (*triremev1.QueueSortResponse, error) {
	made, err := s.configured(ctx, request.GetConfigHash(), request.GetProfile())
	if err != nil {
		return nil, err
	}
	plugin, ok := made.plugin.(framework.SortKeyPlugin)
	if !ok {
		return nil, s.unimplemented("SortKey")
	}
	response, failed := &triremev1.QueueSortResponse{}, false
	for _, message := range request.GetPods() {
		pod, err := podFrom(message)
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "pods: %v", err)
		}
		key, err := sortKey(ctx, plugin, pod)
		answer := &framework.Status{}
		if err != nil {
			text := status.Convert(s.failed("QueueSort: SortKey", err)).Message()
			logger().Error("a pod has no key", "plugin", s.name, "pod", pod.Namespace+"/"+pod.Name, "error", text)
			answer, failed = framework.NewStatus(framework.Error, text), true
		}
		response.Keys = append(response.Keys, &triremev1.SortKey{Level: key.Level, Rest: key.Rest})
		response.Statuses = append(response.Statuses, s.status("SortKey", answer, 0))
	}
	if !failed {
		response.Statuses = nil
	}
	return response, nil
}

// sortKey calls SortKey for one pod; a panic is an error.
func sortKey(ctx context.Context, plugin framework.SortKeyPlugin, pod *v1.Pod) (key framework.SortKey, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			key, err = framework.SortKey{}, fmt.Errorf("panic: %v", cause)
		}
	}()
	key, err = plugin.SortKey(ctx, pod)
	if err == nil {
		err = checkKey(key)
	}
	if err != nil {
		key = framework.SortKey{}
	}
	return key, err
}

// checkKey says what came and what is expected where a part of a key has another length than it may have.
func checkKey(key framework.SortKey) error {
	if len(key.Level) == 0 || len(key.Level) > maxKeyNumbers {
		return fmt.Errorf("returned a Level of %d numbers: must be 1 to %d", len(key.Level), maxKeyNumbers)
	}
	if len(key.Rest) > maxKeyNumbers {
		return fmt.Errorf("returned a Rest of %d numbers: must be at most %d", len(key.Rest), maxKeyNumbers)
	}
	return nil
}

// QueueingHint calls the functions of the events that this one is among, for each pod.
func (s queueServer) QueueingHint(
	ctx context.Context, request *triremev1.QueueingHintRequest,
) (*triremev1.QueueingHintResponse, error) {
	older, err := object(request.GetEvent().GetResource(), request.GetOldJson())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "old_json: %v", err)
	}
	newer, err := object(request.GetEvent().GetResource(), request.GetNewJson())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "new_json: %v", err)
	}
	response := &triremev1.QueueingHintResponse{}
	for _, message := range request.GetPods() {
		pod, err := podFrom(message)
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "pods: %v", err)
		}
		made, err := s.ofProfile(ctx, request.GetConfigHash(), pod.Spec.SchedulerName)
		if err != nil {
			return nil, err
		}
		response.Hints = append(response.Hints, s.hint(made.functions(request.GetEvent()), pod, older, newer))
	}
	return response, nil
}

// functions returns the hints of the registered events that this one is among; nil for one that wakes every pod.
func (c *configured) functions(event *triremev1.ClusterEvent) []framework.QueueingHintFn {
	actions := framework.ActionType(0)
	for _, name := range event.GetActions() {
		actions |= framework.ParseAction(name)
	}
	var out []framework.QueueingHintFn
	for _, registered := range c.events {
		if string(registered.Event.Resource) == event.GetResource() && registered.Event.ActionType&actions != 0 {
			out = append(out, registered.QueueingHintFn)
		}
	}
	return out
}

// hint is QUEUE where any of the functions says so or fails, and where there is none.
func (s *service) hint(functions []framework.QueueingHintFn, pod *v1.Pod, older, newer any) triremev1.Hint {
	if len(functions) == 0 {
		return triremev1.Hint_HINT_QUEUE
	}
	for _, function := range functions {
		if function == nil {
			return triremev1.Hint_HINT_QUEUE
		}
		hint, err := function(klog.Background(), pod, older, newer)
		if err != nil {
			logger().Error("a queueing hint failed: the pod is queued", "plugin", s.name, "error", err)
		}
		if err != nil || hint == framework.Queue {
			return triremev1.Hint_HINT_QUEUE
		}
	}
	return triremev1.Hint_HINT_QUEUE_SKIP
}

var typeOf = map[string]func() any{
	"Node":                            func() any { return &v1.Node{} },
	"Pod":                             func() any { return &v1.Pod{} },
	"AssignedPod":                     func() any { return &v1.Pod{} },
	"UnscheduledPod":                  func() any { return &v1.Pod{} },
	"TargetPod":                       func() any { return &v1.Pod{} },
	"PersistentVolume":                func() any { return &v1.PersistentVolume{} },
	"PersistentVolumeClaim":           func() any { return &v1.PersistentVolumeClaim{} },
	"storage.k8s.io/StorageClass":     func() any { return &storagev1.StorageClass{} },
	"storage.k8s.io/CSINode":          func() any { return &storagev1.CSINode{} },
	"storage.k8s.io/CSIDriver":        func() any { return &storagev1.CSIDriver{} },
	"storage.k8s.io/VolumeAttachment": func() any { return &storagev1.VolumeAttachment{} },
}

// object reads an event's object; nil where there is none.
func object(resource string, data []byte) (any, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if make, ok := typeOf[resource]; ok {
		out := make()
		return out, json.Unmarshal(data, out)
	}
	out := map[string]any{}
	return out, json.Unmarshal(data, &out)
}
