package main

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// A happening is a case of the golden hints: an event in a cluster, and a plugin that rejected a pod before.
type happening struct {
	Plugin string
	Event  struct {
		Resource string
		Actions  []string
	}
	Old, New runtime.Object
	situation
}

// isHappening tells a case of the hints, which names a plugin, from one of the decisions.
func isHappening(content json.RawMessage) bool {
	var about struct{ Plugin string }
	return json.Unmarshal(content, &about) == nil && about.Plugin != ""
}

func parseHappening(content json.RawMessage) (*happening, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(content, &fields); err != nil {
		return nil, err
	}
	parsed := &happening{}
	if err := json.Unmarshal(fields["plugin"], &parsed.Plugin); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(fields["event"], &parsed.Event); err != nil {
		return nil, err
	}
	for name, into := range map[string]*runtime.Object{"old": &parsed.Old, "new": &parsed.New} {
		if fields[name] == nil {
			continue
		}
		var side situation
		if err := side.add(name, fields[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		*into = side.Objects[0]
	}
	for _, name := range []string{"plugin", "event", "old", "new"} {
		delete(fields, name)
	}
	rest, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	around, err := parse(rest)
	if err != nil {
		return nil, err
	}
	parsed.situation = *around
	return parsed, nil
}

// answerHint asks the plugin, in a cluster as it is after the event.
func answerHint(content json.RawMessage) (object, *varying, error) {
	about, err := parseHappening(content)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	profile, err := standardProfile(&about.situation)
	if err != nil {
		return nil, nil, err
	}
	made, err := newCluster(ctx, about.Objects, []config.KubeSchedulerProfile{*profile})
	if err != nil {
		return nil, nil, err
	}
	defer made.stop()
	function, err := hintFunction(ctx, made.framework(defaultProfile), about)
	if err != nil {
		return nil, nil, err
	}
	answer := object{"hint": fwk.Queue.String()}
	if function != nil {
		hint, err := function(klog.FromContext(ctx), about.Pod, plain(about.Old), plain(about.New))
		if err != nil {
			// The queue takes an error for a reason to try.
			answer["error"] = err.Error()
			hint = fwk.Queue
		}
		answer["hint"] = hint.String()
	}
	if changes := about.changes(); changes != nil {
		answer["changes"] = changes
	}
	return answer, &varying{}, nil
}

// plain keeps a missing object from becoming an interface that is not nil.
func plain(object runtime.Object) any {
	if object == nil {
		return nil
	}
	return object
}

// hintFunction finds what the plugin registered for the event.
func hintFunction(ctx context.Context, profile framework.Framework, about *happening) (fwk.QueueingHintFn, error) {
	for _, extension := range profile.EnqueueExtensions() {
		if extension.Name() != about.Plugin {
			continue
		}
		events, err := extension.EventsToRegister(ctx)
		if err != nil {
			return nil, err
		}
		for _, event := range events {
			if string(event.Event.Resource) == about.Event.Resource && about.isOf(event.Event.ActionType) {
				return event.QueueingHintFn, nil
			}
		}
	}
	return nil, fmt.Errorf("%s registers no such event of %s", about.Plugin, about.Event.Resource)
}

// isOf tells the registrations of one resource apart.
func (h *happening) isOf(registered fwk.ActionType) bool {
	switch {
	case h.Old == nil:
		return registered&fwk.Add != 0
	case h.New == nil:
		return registered&fwk.Delete != 0
	default:
		return registered&fwk.Update != 0
	}
}

// changes are the events that the scheduler makes of an update of a pod or node.
func (h *happening) changes() []string {
	if h.Old == nil || h.New == nil {
		return nil
	}
	var events []fwk.ClusterEvent
	switch after := h.New.(type) {
	case *v1.Node:
		events = framework.NodeSchedulingPropertiesChange(after, h.Old.(*v1.Node))
	case *v1.Pod:
		events = framework.PodSchedulingPropertiesChange(after, h.Old.(*v1.Pod), h.Event.Resource == string(fwk.TargetPod))
	default:
		return nil
	}
	labels := make([]string, 0, len(events))
	for _, event := range events {
		labels = append(labels, event.Label())
	}
	return labels
}
