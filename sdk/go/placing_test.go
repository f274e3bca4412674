package trireme

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

// placing answers by what it is given, and takes down what it got.
type placing struct {
	base
	answer func(progress framework.PlacementProgress) *framework.Status
	seen   *[]string
}

func (p placing) PlacementFeasible(
	_ context.Context, placement *framework.PlacementTrial, group framework.PodGroupInfo, progress framework.PlacementProgress,
) *framework.Status {
	kind := "pods"
	if group.GetCompositePodGroup() != nil {
		kind = "groups"
	}
	var tried []string
	for _, each := range placement.Tried {
		tried = append(tried, each.Pod.Name+each.Pod.Spec.SchedulerName+"@"+each.NodeName)
	}
	*p.seen = append(*p.seen, fmt.Sprint(
		kind, " ", group.GetNamespace(), "/", group.GetName(), " min ", group.GetMinCount(), " in ", placement.Name,
		placement.NodeNames, tried, progress,
	))
	return p.answer(progress)
}

func trial(composite bool, steps ...uint32) *triremev1.PlacementFeasibleRequest {
	metadata := &triremev1.ObjectMeta{Namespace: "shop", Name: "gang"}
	request := &triremev1.PlacementFeasibleRequest{
		Cycle: &triremev1.Cycle{Profile: "p"}, MinCount: 2, Placement: "rack-a", NodeNames: []string{"a", "b"},
		Group: &triremev1.PlacementFeasibleRequest_PodGroup{PodGroup: &triremev1.PodGroup{Metadata: metadata}},
		Tried: []*triremev1.TriedPod{
			{Pod: &triremev1.Pod{Metadata: &triremev1.ObjectMeta{Name: "w0"}}, NodeName: "a"},
			{Pod: &triremev1.Pod{Metadata: &triremev1.ObjectMeta{Name: "w1"}}, Fields: 1},
		},
		PodFields: []*triremev1.Pod{
			{Spec: &triremev1.PodSpec{SchedulerName: "-x"}}, {Spec: &triremev1.PodSpec{SchedulerName: "-y"}},
		},
	}
	if composite {
		group := &triremev1.CompositePodGroup{Metadata: metadata}
		request.Group = &triremev1.PlacementFeasibleRequest_CompositePodGroup{CompositePodGroup: group}
	}
	for _, tried := range steps {
		step := &triremev1.PlacementStep{Tried: tried, Remaining: 2 - tried, Scheduled: min(tried, 1), Unschedulable: tried / 2}
		request.Steps = append(request.Steps, step)
	}
	return request
}

// asked calls the plugin, and returns the codes and the last message.
func asked(t *testing.T, plugin placing, request *triremev1.PlacementFeasibleRequest) ([]string, string) {
	t.Helper()
	connection := served(t, Definition{Plugin: plugin}, Options{})
	response, err := triremev1.NewPodGroupPluginClient(connection).PlacementFeasible(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	message := ""
	for _, each := range response.GetStatuses() {
		out = append(out, strings.TrimPrefix(each.GetCode().String(), "CODE_"))
		message = strings.Join(each.GetMessages(), ", ")
	}
	return out, message
}

// If this fails, a plugin decides about another group, another placement, or pods that were not tried yet.
func TestEachStepHasTheGroupThePlacementAndThePodsTriedByThen(t *testing.T) {
	for _, composite := range []bool{false, true} {
		var seen []string
		plugin := placing{seen: &seen, answer: func(progress framework.PlacementProgress) *framework.Status {
			if progress.Remaining > 0 {
				return framework.NewStatus(framework.Wait, "one more")
			}
			return nil
		}}
		got, _ := asked(t, plugin, trial(composite, 1, 2))
		if !slices.Equal(got, []string{"WAIT", "SUCCESS"}) {
			t.Errorf("answered %v", got)
		}
		kind := map[bool]string{false: "pods", true: "groups"}[composite]
		expected := []string{
			kind + " shop/gang min 2 in rack-a[a b] [w0-x@a] {1 1 0}",
			kind + " shop/gang min 2 in rack-a[a b] [w0-x@a w1-y@] {0 1 1}",
		}
		if !slices.Equal(seen, expected) {
			t.Errorf("saw %q", seen)
		}
	}
}

// If this fails, a plugin is called about steps after the one that it refused, or answers what the scheduler rejects.
func TestTheFirstRefusalOrErrorIsTheLastStatus(t *testing.T) {
	for name, each := range map[string]struct {
		answer   *framework.Status
		codes    []string
		expected string
	}{
		"refusal":         {framework.NewStatus(framework.Unschedulable, "no licence"), []string{"UNSCHEDULABLE"}, "no licence"},
		"error":           {framework.AsStatus(errors.New("down")), []string{"ERROR"}, "down"},
		"another refusal": {framework.NewStatus(framework.Pending, "x"), []string{"ERROR"}, "returned Pending, which this step must not"},
		"skip":            {framework.NewStatus(framework.Skip), []string{"ERROR"}, "returned Skip, which this step must not"},
		"wait for what":   {framework.NewStatus(framework.Wait), []string{"ERROR"}, "returned Wait without a reason"},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []string
			plugin := placing{seen: &seen, answer: func(framework.PlacementProgress) *framework.Status { return each.answer }}
			got, message := asked(t, plugin, trial(false, 0, 1, 2))
			if !slices.Equal(got, each.codes) || !strings.Contains(message, each.expected) || len(seen) != 1 {
				t.Errorf("answered %v (%s) after %d calls", got, message, len(seen))
			}
		})
	}
}

// If this fails, an older scheduler rejects a plugin for an extension point that its configuration cannot name.
func TestThePointIsLeftOutForASchedulerThatDoesNotKnowIt(t *testing.T) {
	var seen []string
	connection := served(t, Definition{Plugin: placing{seen: &seen}}, Options{})
	client := triremev1.NewPluginServiceClient(connection)
	for _, each := range []struct {
		features []string
		points   int
	}{{nil, 0}, {[]string{"placement-feasible"}, 1}, {nil, 0}} {
		response, err := client.GetPluginInfo(t.Context(), &triremev1.GetPluginInfoRequest{Features: each.features})
		if err != nil {
			t.Fatal(err)
		}
		if got := response.GetPlugins()[0].GetExtensionPoints(); len(got) != each.points {
			t.Errorf("with %v the points are %v", each.features, got)
		}
	}
}
