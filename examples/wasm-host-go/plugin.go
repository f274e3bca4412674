package main

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"trireme.dev/sdk/go/framework"
)

// base is a plugin that runs a guest: what it exports decides which of the types below it is.
type base struct {
	name   string
	guests *pool
}

func (b base) Name() string { return b.name }

// EventsToRegister are all changes of nodes, since a guest sees nothing else that changes.
func (b base) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	event := framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add | framework.Update}
	return []framework.ClusterEventWithHint{{Event: event}}, nil
}

type filtering struct{ base }

func (p filtering) Filter(ctx context.Context, _ framework.CycleState, pod *v1.Pod, info framework.NodeInfo) *framework.Status {
	guest, err := p.guests.take(ctx)
	if err != nil {
		return framework.AsStatus(err)
	}
	defer p.guests.put(guest)
	return guest.filter(ctx, pod, info.Node())
}

type scoring struct{ base }

func (p scoring) Score(
	ctx context.Context, _ framework.CycleState, pod *v1.Pod, info framework.NodeInfo,
) (int64, *framework.Status) {
	guest, err := p.guests.take(ctx)
	if err != nil {
		return 0, framework.AsStatus(err)
	}
	defer p.guests.put(guest)
	return guest.score(ctx, pod, info.Node())
}

func (p scoring) ScoreExtensions() framework.ScoreExtensions { return nil }

type both struct {
	filtering
	scoring
}

func (p both) Name() string { return p.filtering.name }

func (p both) EventsToRegister(ctx context.Context) ([]framework.ClusterEventWithHint, error) {
	return p.filtering.EventsToRegister(ctx)
}

// newPlugin makes the plugin for one profile, whose guests have this configuration.
func newPlugin(ctx context.Context, name string, host *host, config string) (framework.Plugin, error) {
	guests := &pool{host: host, config: config}
	// The first guest is made here: one that fails to start refuses the configuration, and no pod.
	guest, err := guests.take(ctx)
	if err != nil {
		return nil, err
	}
	guests.put(guest)
	b := base{name: name, guests: guests}
	switch {
	case host.exports("filter") && host.exports("score"):
		return both{filtering{b}, scoring{b}}, nil
	case host.exports("filter"):
		return filtering{b}, nil
	default:
		return scoring{b}, nil
	}
}
