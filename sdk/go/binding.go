// Also change: internal/trireme/sdk/binding.py (which names the other languages' files).

package trireme

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	v1 "k8s.io/api/core/v1"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

// bindServer serves BindPlugin.
type bindServer struct {
	triremev1.UnimplementedBindPluginServer
	*service
}

// item is one pod of a call, with the state that Reserve or PreBind returned for it.
type item struct {
	pod   *v1.Pod
	node  string
	state *cycleState
}

func (c *call) item(of *triremev1.BindItem) (item, error) {
	state, err := decodeState(c.definition.States, of.GetState())
	if err != nil {
		return item{}, c.failed("state", err)
	}
	return item{pod: c.identified(of.GetPod()), node: of.GetNodeName(), state: state}, nil
}

// each calls a function for each pod, in order.
func (s *service) each(
	ctx context.Context, cycle *triremev1.Cycle, items []*triremev1.BindItem, do func(call *call, it item) error,
) error {
	call, err := s.begin(ctx, cycle, nil)
	if err != nil {
		return err
	}
	for _, of := range items {
		it, err := call.item(of)
		if err != nil {
			return err
		}
		if err := do(call, it); err != nil {
			return err
		}
	}
	return nil
}

// Permit calls the method for each pod.
func (s bindServer) Permit(ctx context.Context, request *triremev1.PermitRequest) (*triremev1.PermitResponse, error) {
	response := &triremev1.PermitResponse{}
	err := s.each(ctx, request.GetCycle(), request.GetItems(), func(call *call, it item) error {
		plugin, ok := call.plugin.(framework.PermitPlugin)
		if !ok {
			return s.unimplemented("Permit")
		}
		// Before the plugin can be asked to allow it: an answer may come while the method still runs.
		s.scheduler.remember(it.pod)
		answer, timeout := plugin.Permit(ctx, it.state, it.pod, it.node)
		if answer.IsWait() && timeout <= 0 {
			answer = framework.AsStatus(fmt.Errorf("Permit returned Wait for %s: must be longer than 0", timeout))
		}
		result := &triremev1.PermitResult{Status: s.status("Permit", answer, mayWait)}
		if answer.IsWait() {
			result.Timeout = durationpb.New(timeout)
			s.scheduler.expire(it.pod.UID, timeout)
		} else {
			s.scheduler.forget(it.pod.UID)
		}
		response.Results = append(response.Results, result)
		return nil
	})
	return response, err
}

// PreBindPreFlight calls the method for each pod.
func (s bindServer) PreBindPreFlight(
	ctx context.Context, request *triremev1.PreBindPreFlightRequest,
) (*triremev1.PreBindPreFlightResponse, error) {
	response := &triremev1.PreBindPreFlightResponse{}
	err := s.each(ctx, request.GetCycle(), request.GetItems(), func(call *call, it item) error {
		plugin, ok := call.plugin.(framework.PreBindPlugin)
		if !ok {
			return s.unimplemented("PreBindPreFlight")
		}
		_, answer := plugin.PreBindPreFlight(ctx, it.state, it.pod, it.node)
		response.Statuses = append(response.Statuses, s.status("PreBindPreFlight", answer, maySkip))
		return nil
	})
	return response, err
}

// PreBind calls the method for each pod.
func (s bindServer) PreBind(ctx context.Context, request *triremev1.PreBindRequest) (*triremev1.PreBindResponse, error) {
	response := &triremev1.PreBindResponse{}
	err := s.each(ctx, request.GetCycle(), request.GetItems(), func(call *call, it item) error {
		plugin, ok := call.plugin.(framework.PreBindPlugin)
		if !ok {
			return s.unimplemented("PreBind")
		}
		result, err := s.preBind(ctx, plugin, it)
		response.Results = append(response.Results, result)
		return err
	})
	return response, err
}

func (s *service) preBind(ctx context.Context, plugin framework.PreBindPlugin, it item) (*triremev1.PreBindResult, error) {
	result := &triremev1.PreBindResult{}
	answer := plugin.PreBind(ctx, it.state, it.pod, it.node)
	if answer.IsWait() {
		waiting, ok := plugin.(framework.PreBindWaitPlugin)
		if !ok {
			answer = framework.AsStatus(errors.New("PreBind returned Wait, and the plugin has no PreBindWait"))
		} else {
			var timeout time.Duration
			result.WaitFor, timeout = waiting.PreBindWait(ctx, it.state, it.pod, it.node)
			result.Timeout = durationpb.New(timeout)
			if len(result.WaitFor) == 0 || timeout <= 0 {
				answer = framework.AsStatus(errors.New("PreBindWait must return an object and a time above 0"))
				result = &triremev1.PreBindResult{}
			}
		}
	}
	result.Status = s.status("PreBind", answer, mayWait|maySkip)
	var err error
	if result.State, err = it.state.encode(); err != nil {
		return nil, s.failed("PreBind", err)
	}
	return result, nil
}

// Bind calls the method for each pod, and sends each result at once.
func (s bindServer) Bind(
	request *triremev1.BindRequest, stream grpc.ServerStreamingServer[triremev1.BindResponse],
) error {
	ctx, index := stream.Context(), uint32(0)
	return s.each(ctx, request.GetCycle(), request.GetItems(), func(call *call, it item) error {
		plugin, ok := call.plugin.(framework.BindPlugin)
		if !ok {
			return s.unimplemented("Bind")
		}
		answer := s.status("Bind", plugin.Bind(ctx, it.state, it.pod, it.node), maySkip)
		result := &triremev1.BindResult{Index: index, Status: answer}
		index++
		return stream.Send(&triremev1.BindResponse{Results: []*triremev1.BindResult{result}})
	})
}

// PostBind calls the method for each pod.
func (s bindServer) PostBind(ctx context.Context, request *triremev1.PostBindRequest) (*triremev1.PostBindResponse, error) {
	err := s.each(ctx, request.GetCycle(), request.GetItems(), func(call *call, it item) error {
		plugin, ok := call.plugin.(framework.PostBindPlugin)
		if !ok {
			return s.unimplemented("PostBind")
		}
		s.scheduler.forget(it.pod.UID)
		plugin.PostBind(ctx, it.state, it.pod, it.node)
		return nil
	})
	return &triremev1.PostBindResponse{}, err
}
