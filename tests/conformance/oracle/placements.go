package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// What plugins of a profile answer about a group: at PlacementGenerate and at PlacementFeasible, in order.
type placementCase struct {
	Nodes      []string
	Generators []generating
	Feasible   []judging
}

// A plugin at PlacementGenerate: it has an error, or does not restrict the group, or generates these.
type generating struct {
	Name         string
	Error        string
	Unrestricted bool
	Placements   []placementOfNodes
}

type placementOfNodes struct {
	Name  string   `json:"name"`
	Nodes []string `json:"nodes"`
}

// A plugin at PlacementFeasible that answers a status; empty: nil.
type judging struct {
	Name    string
	Code    string
	Message string
	called  *int
}

type placementStatus struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Plugin  string `json:"plugin"`
}

func (g generating) GeneratePlacements(
	_ context.Context, _ fwk.PodGroupCycleState, _ fwk.PodGroupInfo, parent *fwk.Placement,
) (*fwk.GeneratePlacementsResult, *fwk.Status) {
	if g.Error != "" {
		return nil, fwk.AsStatus(errors.New(g.Error))
	}
	if g.Unrestricted {
		return &fwk.GeneratePlacementsResult{Placements: []*fwk.Placement{parent}}, nil
	}
	result := &fwk.GeneratePlacementsResult{}
	for _, each := range g.Placements {
		placement := &fwk.Placement{Name: each.Name}
		for _, name := range each.Nodes {
			for _, node := range parent.Nodes {
				if node.Node().Name == name {
					placement.Nodes = append(placement.Nodes, node)
				}
			}
		}
		result.Placements = append(result.Placements, placement)
	}
	return result, nil
}

func (j judging) PlacementFeasible(
	context.Context, fwk.PlacementCycleState, fwk.PodGroupInfo, fwk.PlacementProgress,
) *fwk.Status {
	*j.called++
	for code := fwk.Success; code <= fwk.Pending; code++ {
		if code.String() == j.Code {
			return fwk.NewStatus(code, j.Message)
		}
	}
	return nil
}

type generator struct{ generating }

func (g generator) Name() string { return g.generating.Name }

type judge struct{ judging }

func (j judge) Name() string { return j.judging.Name }

// Every profile has them, and these groups do not come to them.
type queueAndBind struct{}

func (queueAndBind) Name() string { return "QueueAndBind" }

func (queueAndBind) Less(fwk.QueuedEntityInfo, fwk.QueuedEntityInfo) bool { return false }

func (queueAndBind) Bind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

// runPlacementPlugins reads cases, one a line, and prints what the framework makes of the plugins' answers.
func runPlacementPlugins() error {
	metrics.Register()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	encoder := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var about placementCase
		if err := json.Unmarshal(lines.Bytes(), &about); err != nil {
			return err
		}
		answer, err := about.run()
		if err != nil {
			return err
		}
		if err := encoder.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (c placementCase) run() (object, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	registry := frameworkruntime.Registry{}
	register := func(plugin fwk.Plugin, set *config.PluginSet) error {
		set.Enabled = append(set.Enabled, config.Plugin{Name: plugin.Name()})
		return registry.Register(plugin.Name(), func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
			return plugin, nil
		})
	}
	plugins := &config.Plugins{Bind: enabled("QueueAndBind")}
	if err := register(queueAndBind{}, &plugins.QueueSort); err != nil {
		return nil, err
	}
	for _, each := range c.Generators {
		if err := register(generator{each}, &plugins.PlacementGenerate); err != nil {
			return nil, err
		}
	}
	called := make([]int, len(c.Feasible))
	for i, each := range c.Feasible {
		each.called = &called[i]
		if err := register(judge{each}, &plugins.PlacementFeasible); err != nil {
			return nil, err
		}
	}
	made, err := frameworkruntime.NewFramework(ctx, registry, &config.KubeSchedulerProfile{SchedulerName: "p", Plugins: plugins})
	if err != nil {
		return nil, fmt.Errorf("the framework: %w", err)
	}
	var nodes []fwk.NodeInfo
	for _, name := range c.Nodes {
		node := framework.NewNodeInfo()
		node.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		nodes = append(nodes, node)
	}
	group := framework.NewPodGroupInfo(fwk.NewGenericPodGroup(&schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"},
	}))
	cycle := framework.NewCycleState()
	placements, status := made.RunPlacementGeneratePlugins(ctx, cycle, group, nodes)
	generated := []placementOfNodes{}
	for _, placement := range placements {
		out := placementOfNodes{Name: placement.Name, Nodes: []string{}}
		for _, node := range placement.Nodes {
			out.Nodes = append(out.Nodes, node.Node().Name)
		}
		generated = append(generated, out)
	}
	state := framework.NewCycleState()
	state.SetPodGroupCycleState(cycle)
	feasible := made.RunPlacementFeasiblePlugins(ctx, state, group, fwk.PlacementProgress{})
	return object{
		"placements": generated, "status": statusOf(status), "feasible": statusOf(feasible), "called": called,
	}, nil
}

func statusOf(status *fwk.Status) placementStatus {
	if status.IsSuccess() {
		return placementStatus{Code: fwk.Success.String()}
	}
	return placementStatus{Code: status.Code().String(), Message: status.Message(), Plugin: status.Plugin()}
}
