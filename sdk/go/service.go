// Also change: internal/trireme/rpc/fencing.py (which names the other languages' files).
// Also change: internal/trireme/sdk/plugin_server.py (which names the other languages' files).
// Also change: internal/trireme/sdk/invoker.py (which names the other languages' files).

package trireme

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

// The trailing metadata that says why a call is refused; callers act on it.
const (
	reasonMetadata       = "trireme-reason"
	reasonStaleEpoch     = "stale-epoch"
	reasonConfigMismatch = "config-mismatch"
)

// Several schedulers may use one plugin, and each has its own configuration; the oldest is forgotten first.
const maxConfigurations = 32

// service is one plugin as the protocol sees it.
type service struct {
	definition Definition
	info       *triremev1.GetPluginInfoResponse
	name       string
	prototype  framework.Plugin
	epochs     *epochs
	turns      chan struct{} // nil: no limit of concurrent calls
	follower   *follower     // nil unless the plugin follows the cluster
	reads      reads         // of the cluster that it follows
	scheduler  *scheduler
	ctx        context.Context // ends with the process

	mu     sync.Mutex
	hashes []uint64
	made   map[uint64]map[string]*configured // by hash and profile
}

// configured is the plugin of one configuration and profile.
type configured struct {
	args   []byte
	plugin framework.Plugin
	handle *handle
	events []framework.ClusterEventWithHint
}

func newService(ctx context.Context, definition Definition, scheduler *scheduler) (*service, error) {
	s := &service{
		definition: definition, epochs: newEpochs(), scheduler: scheduler, ctx: ctx,
		made: map[uint64]map[string]*configured{},
	}
	instance := rand.Text()
	if definition.NodeData == Snapshot {
		s.follower = newFollower(instance, ctx.Done())
	}
	prototype, err := definition.prototype(ctx, s.newHandle(""))
	if err != nil {
		return nil, err
	}
	info, err := definition.describe(ctx, prototype)
	if err != nil {
		return nil, err
	}
	s.prototype, s.name = prototype, info.GetName()
	s.info = &triremev1.GetPluginInfoResponse{Instance: instance, Plugins: []*triremev1.PluginInfo{info}}
	if definition.MaxConcurrentCalls > 0 {
		s.turns = make(chan struct{}, definition.MaxConcurrentCalls)
	}
	if s.follower == nil && slices.Contains(info.GetExtensionPoints(), triremev1.ExtensionPoint_EXTENSION_POINT_POST_FILTER) {
		logger().Info("nodes have no names at PostFilter without Snapshot", "plugin", s.name)
	}
	scheduler.plugin = s.name
	return s, nil
}

func (s *service) newHandle(profile string) *handle {
	return &handle{service: s, profile: profile}
}

// configure makes the plugin for a profile's arguments. The same arguments keep the plugin that they made.
func (s *service) configure(request *triremev1.ConfigureRequest) error {
	hash, profile := request.GetConfigHash(), request.GetProfile()
	s.mu.Lock()
	before := s.made[hash][profile]
	if before == nil {
		before = s.sameElsewhere(profile, request.GetArgsJson())
	}
	s.mu.Unlock()
	if before != nil && bytes.Equal(before.args, request.GetArgsJson()) {
		s.keep(hash, profile, before)
		return nil
	}
	handle := s.newHandle(profile)
	plugin, err := s.definition.New(s.ctx, request.GetArgsJson(), handle)
	if err != nil {
		return err
	}
	registered, err := events(s.ctx, plugin)
	if err != nil {
		return err
	}
	s.keep(hash, profile, &configured{args: request.GetArgsJson(), plugin: plugin, handle: handle, events: registered})
	return nil
}

// sameElsewhere returns the plugin of the profile that equal arguments made under another hash. The caller holds the lock.
func (s *service) sameElsewhere(profile string, args []byte) *configured {
	for _, hash := range s.hashes {
		if found := s.made[hash][profile]; found != nil && bytes.Equal(found.args, args) {
			return found
		}
	}
	return nil
}

func (s *service) keep(hash uint64, profile string, made *configured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made[hash] == nil {
		s.made[hash] = map[string]*configured{}
		s.hashes = append(s.hashes, hash)
		if len(s.hashes) > maxConfigurations {
			delete(s.made, s.hashes[0])
			s.hashes = s.hashes[1:]
		}
	}
	s.made[hash][profile] = made
}

// configured returns the plugin of a configuration and profile; without arguments there is one for all.
func (s *service) configured(ctx context.Context, hash uint64, profile string) (*configured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.definition.New == nil {
		if s.made[0][""] == nil {
			registered, err := events(s.ctx, s.prototype)
			if err != nil {
				return nil, s.failed("EventsToRegister", err)
			}
			s.made[0] = map[string]*configured{"": {plugin: s.prototype, handle: s.newHandle(""), events: registered}}
		}
		return s.made[0][""], nil
	}
	if found := s.made[hash][profile]; found != nil {
		return found, nil
	}
	text := fmt.Sprintf("config_hash: plugin %s does not have this configuration of profile %q", s.name, profile)
	return nil, refusal(ctx, reasonConfigMismatch, text)
}

// ofProfile returns the plugin of a pod's profile, or of any where the pod does not say it: a scheduler of the first release
// does not send the profile with hints.
func (s *service) ofProfile(ctx context.Context, hash uint64, profile string) (*configured, error) {
	if profile != "" {
		return s.configured(ctx, hash, profile)
	}
	s.mu.Lock()
	for profile := range s.made[hash] {
		s.mu.Unlock()
		return s.configured(ctx, hash, profile)
	}
	s.mu.Unlock()
	return s.configured(ctx, hash, "")
}

// call is one call about one class of pods.
type call struct {
	*service
	plugin     framework.Plugin
	state      *cycleState
	pod        *v1.Pod
	generation uint64
}

// begin checks the caller and returns the call of a cycle.
func (s *service) begin(ctx context.Context, cycle *triremev1.Cycle, state []byte) (*call, error) {
	if err := s.epochs.admit(cycle.GetFence()); err != nil {
		return nil, refusal(ctx, reasonStaleEpoch, err.Error())
	}
	made, err := s.configured(ctx, cycle.GetConfigHash(), cycle.GetProfile())
	if err != nil {
		return nil, err
	}
	if s.follower != nil {
		if err := s.follower.wait(ctx, cycle); err != nil {
			return nil, err
		}
	}
	pod, err := podFrom(cycle.GetPod())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "cycle.pod: %v", err)
	}
	decoded, err := decodeState(s.definition.States, state)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "cycle.state: %v", err)
	}
	return &call{service: s, plugin: made.plugin, state: decoded, pod: pod, generation: cycle.GetGeneration()}, nil
}

// identified returns the pod with its identity, which the class does not have.
func (c *call) identified(pod *triremev1.PodIdentity) *v1.Pod {
	out := *c.pod
	out.Namespace, out.Name, out.UID = pod.GetNamespace(), pod.GetName(), types.UID(pod.GetUid())
	return &out
}

// nodes returns the nodes of a call.
func (s *service) nodes(selection *triremev1.NodeSelection) []framework.NodeInfo {
	if s.follower != nil {
		return s.follower.infos(selection.GetSlots())
	}
	out := make([]framework.NodeInfo, len(selection.GetNodes()))
	infos := make([]nodeInfo, len(selection.GetNodes()))
	for i, view := range selection.GetNodes() {
		infos[i].name, infos[i].message, infos[i].json = view.GetName(), view.GetNode(), view.GetJson()
		out[i] = &infos[i]
	}
	return out
}

// refusal is FAILED_PRECONDITION with a reason.
func refusal(ctx context.Context, reason, text string) error {
	// An error means that this is no gRPC call; then there is nobody to notify.
	_ = grpc.SetTrailer(ctx, metadata.Pairs(reasonMetadata, reason))
	return status.Error(codes.FailedPrecondition, text)
}

// failed is INTERNAL, with the plugin and the method that is wrong.
func (s *service) failed(method string, err error) error {
	return status.Errorf(codes.Internal, "plugin %s: %s: %v", s.name, method, err)
}

// unimplemented says that the plugin does not take part at a step.
func (s *service) unimplemented(method string) error {
	return status.Errorf(codes.Unimplemented, "plugin %s has no %s", s.name, method)
}
