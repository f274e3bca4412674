// Also change: internal/trireme/sdk/handle.py (which names the other languages' files).

package trireme

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

// How long a request to the scheduler may take.
const handleTimeout = 5 * time.Second

// scheduler is the plugin's end of HandleService, and the pods that it lets wait.
type scheduler struct {
	plugin     string
	connection *connection     // nil without an address
	ctx        context.Context // ends with the process

	mu      sync.Mutex
	waiting map[types.UID]*waitingPod
}

func newScheduler(ctx context.Context, connection *connection) *scheduler {
	return &scheduler{ctx: ctx, connection: connection, waiting: map[types.UID]*waitingPod{}}
}

// waitingPod is a framework.WaitingPod.
type waitingPod struct {
	*scheduler
	pod   *v1.Pod
	timer *time.Timer
}

// remember takes note of a pod that is about to wait.
func (s *scheduler) remember(pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[pod.UID] == nil {
		s.waiting[pod.UID] = &waitingPod{scheduler: s, pod: pod}
	}
}

// expire has the pod forgotten after its wait.
func (s *scheduler) expire(uid types.UID, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, ok := s.waiting[uid]
	if !ok {
		return // it was allowed meanwhile
	}
	if pod.timer != nil {
		pod.timer.Stop()
	}
	pod.timer = time.AfterFunc(after, func() { s.forget(uid) })
}

func (s *scheduler) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pod, ok := s.waiting[uid]; ok {
		if pod.timer != nil {
			pod.timer.Stop()
		}
		delete(s.waiting, uid)
	}
}

func (s *scheduler) get(uid types.UID) *waitingPod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[uid]
}

func (s *scheduler) all() []*waitingPod {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*waitingPod, 0, len(s.waiting))
	for _, pod := range s.waiting {
		out = append(out, pod)
	}
	return out
}

// request calls the scheduler; false where the pod does not wait, or there is no answer.
func (s *scheduler) request(what string, call func(context.Context, triremev1.HandleServiceClient) error) bool {
	if s.connection == nil {
		logger().Error(what+" needs the address of the frontend: --scheduler", "plugin", s.plugin)
		return false
	}
	ctx, cancel := context.WithTimeout(s.ctx, handleTimeout)
	defer cancel()
	channel, err := s.connection.current()
	if err == nil {
		err = call(ctx, triremev1.NewHandleServiceClient(channel))
	}
	if err != nil && status.Code(err) != codes.NotFound {
		logger().Error(what+" failed", "plugin", s.plugin, "error", err)
	}
	return err == nil
}

// GetPod implements framework.WaitingPod.
func (w *waitingPod) GetPod() *v1.Pod { return w.pod }

// GetPendingPlugins implements framework.WaitingPod.
func (w *waitingPod) GetPendingPlugins() []string { return []string{w.plugin} }

// Allow implements framework.WaitingPod.
func (w *waitingPod) Allow(pluginName string) {
	allowed := w.request("Allow", func(ctx context.Context, client triremev1.HandleServiceClient) error {
		_, err := client.Allow(ctx, &triremev1.AllowRequest{Pod: framework.Identity(w.pod), Plugin: pluginName})
		return err
	})
	if allowed {
		w.forget(w.pod.UID)
	}
}

// Reject implements framework.WaitingPod.
func (w *waitingPod) Reject(pluginName, msg string) bool {
	rejected := w.request("Reject", func(ctx context.Context, client triremev1.HandleServiceClient) error {
		request := &triremev1.RejectRequest{Pod: framework.Identity(w.pod), Plugin: pluginName, Message: msg}
		_, err := client.Reject(ctx, request)
		return err
	})
	if rejected {
		w.forget(w.pod.UID)
	}
	return rejected
}

// handle is a framework.Handle.
type handle struct {
	service *service
	profile string
}

// SnapshotSharedLister implements framework.Handle.
func (h *handle) SnapshotSharedLister() framework.SharedLister {
	if h.service.follower == nil {
		return newCluster() // without nodes
	}
	return watchedLister{h.service.follower.cluster, &h.service.reads}
}

// Objects implements framework.Handle.
func (h *handle) Objects(kind string) []*triremev1.ClusterObject {
	if h.service.follower == nil {
		return nil
	}
	h.service.reads.note("Objects")
	return h.service.follower.ofKind(kind)
}

// IterateOverWaitingPods implements framework.Handle.
func (h *handle) IterateOverWaitingPods(callback func(framework.WaitingPod)) {
	for _, pod := range h.service.scheduler.all() {
		callback(pod)
	}
}

// GetWaitingPod implements framework.Handle.
func (h *handle) GetWaitingPod(uid types.UID) framework.WaitingPod {
	if pod := h.service.scheduler.get(uid); pod != nil {
		return pod
	}
	return nil
}

// RejectWaitingPod implements framework.Handle.
func (h *handle) RejectWaitingPod(uid types.UID) bool {
	pod := h.service.scheduler.get(uid)
	return pod != nil && pod.Reject(h.service.name, "removed")
}

// Activate implements framework.Handle.
func (h *handle) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	request := &triremev1.ActivateRequest{}
	for _, pod := range pods {
		request.Pods = append(request.Pods, framework.Identity(pod))
	}
	h.service.scheduler.request("Activate", func(ctx context.Context, client triremev1.HandleServiceClient) error {
		_, err := client.Activate(ctx, request)
		return err
	})
}

// ProfileName implements framework.Handle.
func (h *handle) ProfileName() string { return h.profile }
