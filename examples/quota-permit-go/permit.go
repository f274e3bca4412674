package main

import (
	"context"
	"net/url"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	trireme "trireme.dev/sdk/go"
	"trireme.dev/sdk/go/framework"
)

const (
	pluginName = "TeamQuota"

	// Pods with this label are counted against the quota of its value.
	teamLabel = "example.com/team"
)

// arguments are the args of a profile's pluginConfig.
type arguments struct {
	// URL of the quota service, required.
	URL string `json:"url"`
	// WaitSeconds is how long a pod waits for quota, on its node; then it is tried again.
	WaitSeconds int `json:"waitSeconds"`
	// PollMilliseconds is how often the service is called for pods that wait.
	PollMilliseconds int `json:"pollMilliseconds"`
}

// teamQuota lets a pod wait, with its node reserved, until the quota service grants its team's request.
type teamQuota struct {
	args   arguments
	quotas *quotas
	handle framework.Handle
}

var definition = trireme.Definition{
	New: trireme.WithArgs(newTeamQuota, func(args *arguments) {
		args.WaitSeconds, args.PollMilliseconds = 60, 500
	}),
	// New refuses arguments without a URL, so it cannot show the extension points.
	Prototype: &teamQuota{},
	Version:   "1.0.0",
	PodFields: []string{"metadata.labels['" + teamLabel + "']"},
}

func newTeamQuota(ctx context.Context, args *arguments, handle framework.Handle) (framework.Plugin, error) {
	var wrong trireme.FieldErrors
	if parsed, err := url.Parse(args.URL); err != nil || parsed.Host == "" {
		wrong = append(wrong, trireme.FieldError{Field: "url", Message: "must be the URL of the quota service"})
	}
	if args.WaitSeconds < 1 || args.WaitSeconds > 900 {
		wrong = append(wrong, trireme.FieldError{Field: "waitSeconds", Message: "must be from 1 to 900"})
	}
	if args.PollMilliseconds < 10 {
		wrong = append(wrong, trireme.FieldError{Field: "pollMilliseconds", Message: "must be at least 10"})
	}
	if wrong != nil {
		return nil, wrong
	}
	plugin := &teamQuota{args: *args, quotas: newQuotas(args.URL), handle: handle}
	go plugin.poll(ctx)
	return plugin, nil
}

// Name is what profiles call it.
func (t *teamQuota) Name() string { return pluginName }

// Permit grants at once where there is quota, else the pod waits. A service that does not answer lets it wait too.
func (t *teamQuota) Permit(
	ctx context.Context, _ framework.CycleState, p *v1.Pod, nodeName string,
) (*framework.Status, time.Duration) {
	team, ok := p.Labels[teamLabel]
	if !ok {
		return nil, 0
	}
	granted, err := t.quotas.claim(ctx, request{Team: team, Pod: string(p.UID), Node: nodeName})
	if err != nil {
		klog.FromContext(ctx).Error(err, "the pod waits", "pod", klog.KObj(p))
	}
	if granted {
		return nil, 0
	}
	return framework.NewStatus(framework.Wait), time.Duration(t.args.WaitSeconds) * time.Second
}

// Reserve does nothing: a node is not what the quota is of.
func (t *teamQuota) Reserve(context.Context, framework.CycleState, *v1.Pod, string) *framework.Status {
	return nil
}

// Unreserve returns the quota of a pod that is not bound after all.
func (t *teamQuota) Unreserve(ctx context.Context, _ framework.CycleState, p *v1.Pod, _ string) {
	if err := t.quotas.release(ctx, string(p.UID)); err != nil {
		klog.FromContext(ctx).Error(err, "quota is not returned", "pod", klog.KObj(p))
	}
}

// poll asks the service for the pods that wait, and has the scheduler bind those that it grants, until ctx ends.
func (t *teamQuota) poll(ctx context.Context) {
	ticker := time.NewTicker(time.Duration(t.args.PollMilliseconds) * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			t.handle.IterateOverWaitingPods(func(pod framework.WaitingPod) { t.retry(ctx, pod.GetPod().UID) })
		}
	}
}

// retry asks for one pod again. A pod that the scheduler does not know to wait yet is allowed the next time.
func (t *teamQuota) retry(ctx context.Context, uid types.UID) {
	pod := t.handle.GetWaitingPod(uid)
	if pod == nil {
		return
	}
	granted, err := t.quotas.claim(ctx, request{Team: pod.GetPod().Labels[teamLabel], Pod: string(uid)})
	if err != nil {
		klog.FromContext(ctx).Error(err, "the pod goes on waiting", "pod", klog.KObj(pod.GetPod()))
	}
	if granted {
		pod.Allow(pluginName)
	}
}
