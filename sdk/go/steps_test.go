package trireme

import (
	"context"
	"errors"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

// counted is cycle state: how many pods of the pod's kind there are.
type counted struct{ Pods int }

func (c *counted) Clone() framework.StateData {
	out := *c
	return &out
}

var states = States{"pods": func() framework.StateData { return &counted{} }}

// stateful keeps a count from PreFilter to Filter, and from Reserve to PreBind.
type stateful struct{ base }

func (stateful) PreFilter(
	_ context.Context, state framework.CycleState, _ *v1.Pod, _ []framework.NodeInfo,
) (*framework.PreFilterResult, *framework.Status) {
	state.Write("pods", &counted{Pods: 2})
	return &framework.PreFilterResult{NodeNames: sets.New("b", "a")}, nil
}

func (s stateful) PreFilterExtensions() framework.PreFilterExtensions { return s }

func (stateful) AddPod(
	_ context.Context, state framework.CycleState, _ *v1.Pod, _ framework.PodInfo, _ framework.NodeInfo,
) *framework.Status {
	return change(state, 1)
}

func (stateful) RemovePod(
	_ context.Context, state framework.CycleState, _ *v1.Pod, _ framework.PodInfo, _ framework.NodeInfo,
) *framework.Status {
	return change(state, -1)
}

func change(state framework.CycleState, by int) *framework.Status {
	data, err := state.Read("pods")
	if err != nil {
		return framework.AsStatus(err)
	}
	data.(*counted).Pods += by
	return nil
}

func (stateful) Filter(_ context.Context, state framework.CycleState, _ *v1.Pod, _ framework.NodeInfo) *framework.Status {
	data, err := state.Read("pods")
	if err != nil {
		return framework.AsStatus(err)
	}
	if data.(*counted).Pods >= 2 {
		return framework.NewStatus(framework.Unschedulable, "too many")
	}
	return nil
}

func (stateful) Reserve(_ context.Context, state framework.CycleState, p *v1.Pod, _ string) *framework.Status {
	state.Write("pods", &counted{Pods: len(p.Name)})
	return nil
}

func (stateful) Unreserve(context.Context, framework.CycleState, *v1.Pod, string) {}

func (stateful) PreBindPreFlight(
	context.Context, framework.CycleState, *v1.Pod, string,
) (*framework.PreBindPreFlightResult, *framework.Status) {
	return nil, nil
}

func (stateful) PreBind(_ context.Context, state framework.CycleState, p *v1.Pod, _ string) *framework.Status {
	data, err := state.Read("pods")
	if err != nil || data.(*counted).Pods != len(p.Name) {
		return framework.AsStatus(err)
	}
	return framework.NewStatus(framework.Skip)
}

// State that gets lost between the steps, or another one than AddPod and RemovePod made, is a wrong decision.
func TestStateGoesFromStepToStep(t *testing.T) {
	client := triremev1.NewFilterPluginClient(served(t, Definition{Plugin: stateful{}, States: states}, Options{}))
	ctx := context.Background()
	prepared, err := client.PreFilter(ctx, &triremev1.PreFilterRequest{Cycle: &triremev1.Cycle{}})
	if err != nil || !slices.Equal(prepared.GetNodeNames(), []string{"a", "b"}) || !prepared.GetNarrowed() {
		t.Fatalf("PreFilter: %v, %v", prepared, err)
	}
	again, _ := client.PreFilter(ctx, &triremev1.PreFilterRequest{Cycle: &triremev1.Cycle{}})
	if string(again.GetState()) != string(prepared.GetState()) {
		t.Errorf("state %s, then %s", prepared.GetState(), again.GetState())
	}
	asked := request("a")
	asked.Cycle.State = prepared.GetState()
	response, err := client.Filter(ctx, asked)
	if err != nil || !slices.Equal(response.GetColumns().GetStatusIndex(), []uint32{1}) {
		t.Errorf("Filter: %v, %v", response, err)
	}
	runs := &triremev1.FilterDryRunRequest{Cycle: asked.GetCycle(), Runs: []*triremev1.DryRun{
		{Node: &triremev1.NodeView{Name: "a"}, RemovedPods: []*triremev1.Pod{{}}},
		{Node: &triremev1.NodeView{Name: "a"}, RemovedPods: []*triremev1.Pod{{}}, AddedPods: []*triremev1.Pod{{}}},
	}}
	dry, err := client.FilterDryRun(ctx, runs)
	if err != nil || !slices.Equal(dry.GetColumns().GetStatusIndex(), []uint32{0, 1}) {
		t.Errorf("FilterDryRun: %v, %v", dry, err)
	}
}

// A pod's reservation belongs to it alone, also where a call is about several.
func TestReserveGivesStateToPreBind(t *testing.T) {
	connection := served(t, Definition{Plugin: stateful{}, States: states}, Options{})
	names := []string{"x", "long"}
	reserve := &triremev1.ReserveRequest{Cycle: &triremev1.Cycle{}}
	for _, name := range names {
		reserve.Placements = append(reserve.Placements, &triremev1.Placement{Pod: &triremev1.PodIdentity{Name: name}})
	}
	reserved, err := triremev1.NewFilterPluginClient(connection).Reserve(context.Background(), reserve)
	if err != nil {
		t.Fatal(err)
	}
	bind := &triremev1.PreBindRequest{Cycle: &triremev1.Cycle{}}
	for i, name := range names {
		item := &triremev1.BindItem{Pod: &triremev1.PodIdentity{Name: name}, State: reserved.GetReservations()[i].GetState()}
		bind.Items = append(bind.Items, item)
	}
	prepared, err := triremev1.NewBindPluginClient(connection).PreBind(context.Background(), bind)
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range prepared.GetResults() {
		if result.GetStatus().GetCode() != triremev1.Code_CODE_SKIP {
			t.Errorf("pod %d: %v", i, result)
		}
	}
}

// State of a type that nobody can read is a mistake that must be seen at the first call.
func TestStateWithoutATypeIsAnError(t *testing.T) {
	client := triremev1.NewFilterPluginClient(served(t, Definition{Plugin: stateful{}}, Options{}))
	_, err := client.PreFilter(context.Background(), &triremev1.PreFilterRequest{Cycle: &triremev1.Cycle{}})
	want := `plugin P: PreFilter: cycle state "pods": Definition.States does not name its type`
	if status.Convert(err).Message() != want {
		t.Errorf("got %v", err)
	}
}

// limited has arguments: the most pods.
type limited struct {
	base
	most int
}

type limits struct {
	Most  int `json:"most"`
	Zones []struct {
		Name string `json:"name"`
	} `json:"zones"`
}

func (l limited) Score(context.Context, framework.CycleState, *v1.Pod, framework.NodeInfo) (int64, *framework.Status) {
	return int64(l.most), nil
}

func (limited) ScoreExtensions() framework.ScoreExtensions { return nil }

var newLimited = WithArgs(func(_ context.Context, args *limits, _ framework.Handle) (framework.Plugin, error) {
	if args.Most < 0 {
		path := field.NewPath("most")
		list := field.ErrorList{field.Invalid(path, args.Most, "must be at least 0"), field.Required(path, "two\nlines")}
		return nil, list.ToAggregate()
	}
	return limited{most: args.Most}, nil
}, func(args *limits) { args.Most = 5 })

// Arguments that are wrong must be refused with the path of each field, and those of other profiles stay what they are.
func TestArgumentsBelongToAProfileAndWrongOnesAreNamed(t *testing.T) {
	connection := served(t, Definition{New: newLimited}, Options{})
	plugin, score := triremev1.NewPluginServiceClient(connection), triremev1.NewScorePluginClient(connection)
	configure := func(profile, args string) []string {
		response, err := plugin.Configure(context.Background(), &triremev1.ConfigureRequest{
			ConfigHash: 1, Profile: profile, ArgsJson: []byte(args),
		})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, one := range response.GetErrors() {
			out = append(out, one.GetField()+": "+one.GetMessage())
		}
		return out
	}
	for args, want := range map[string][]string{
		`[]`:                        {"args: must be an object, not array"},
		`{"most": "many"}`:          {"args.most: must be a whole number, not string"},
		`{"least": 1}`:              {"args.least: unknown field"},
		`{"zones": [{"nom": "a"}]}`: {"args.zones[0].nom: unknown field"},
		`{"most": -1}`:              {"args.most: Invalid value: -1: must be at least 0", "args.most: Required value: two lines"},
	} {
		if got := configure("p", args); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	configure("p", `{"most": 30}`)
	configure("q", `{}`)
	for profile, want := range map[string]int64{"p": 30, "q": 5} {
		response, err := score.Score(context.Background(), &triremev1.ScoreRequest{
			Cycle: &triremev1.Cycle{ConfigHash: 1, Profile: profile},
			Nodes: &triremev1.NodeSelection{Nodes: []*triremev1.NodeView{{Name: "a"}}},
		})
		if err != nil || !slices.Equal(response.GetScores(), []int64{want}) {
			t.Errorf("profile %s: %v, %v", profile, response, err)
		}
	}
	trailer := metadata.MD{}
	_, err := score.Score(context.Background(), &triremev1.ScoreRequest{Cycle: &triremev1.Cycle{ConfigHash: 2}}, grpc.Trailer(&trailer))
	if status.Code(err) != codes.FailedPrecondition || !slices.Equal(trailer.Get(reasonMetadata), []string{reasonConfigMismatch}) {
		t.Errorf("an unknown configuration: %v, %v", err, trailer)
	}
	configure("p", `{"most": 101}`)
	response, _ := score.Score(context.Background(), &triremev1.ScoreRequest{
		Cycle: &triremev1.Cycle{ConfigHash: 1, Profile: "p"},
		Nodes: &triremev1.NodeSelection{Nodes: []*triremev1.NodeView{{Name: "a"}}},
	})
	if text := response.GetStatus().GetMessages(); len(text) != 1 || !strings.Contains(text[0], "Score returned 101") {
		t.Errorf("a score above 100: %v", response)
	}
}

// addedPodCount scores by the number of pods that a call adds to the node.
type addedPodCount struct{ base }

func (addedPodCount) Score(
	_ context.Context, _ framework.CycleState, pod *v1.Pod, node framework.NodeInfo,
) (int64, *framework.Status) {
	for _, added := range node.AddedPods() {
		if added.GetPod().Namespace != pod.Namespace {
			return 0, framework.AsStatus(errors.New("another pod was added"))
		}
	}
	return 90 - 20*int64(len(node.AddedPods())) - int64(len(node.Name())), nil
}

func (addedPodCount) ScoreExtensions() framework.ScoreExtensions { return nil }

// A batch is placed by Score's answers about copies that are not there yet.
func TestScoreIsCalledWithCopiesOfThePod(t *testing.T) {
	counts := true
	client := triremev1.NewScorePluginClient(
		served(t, Definition{Plugin: addedPodCount{}, DependsOn: NodePods, ScoreCopies: &counts}, Options{}),
	)
	request := &triremev1.ScoreCopiesRequest{
		Cycle: &triremev1.Cycle{Pod: &triremev1.Pod{Metadata: &triremev1.ObjectMeta{Namespace: "shop"}}},
		Nodes: &triremev1.NodeSelection{Nodes: []*triremev1.NodeView{{Name: "a"}, {Name: "bb"}}},
	}
	_, err := client.ScoreCopies(context.Background(), request)
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("no copies: %v", err)
	}
	request.Copies = 3
	response, err := client.ScoreCopies(context.Background(), request)
	if err != nil || !slices.Equal(response.GetScores(), []int64{69, 49, 29, 68, 48, 28}) {
		t.Errorf("%v, %v", response, err)
	}
	request.Copies = 5
	response, err = client.ScoreCopies(context.Background(), request)
	if err != nil || response.GetStatus().GetCode() != triremev1.Code_CODE_ERROR || len(response.GetScores()) != 0 {
		t.Errorf("a score below 0: %v, %v", response, err)
	}
}

// A plugin that does not look at the copies must not be taken for one that does.
func TestScoreCopiesIsAnnouncedWhereTheNodesPodsHaveThem(t *testing.T) {
	yes, no := true, false
	for name, each := range map[string]struct {
		definition Definition
		want       bool
	}{
		"follows":        {Definition{Plugin: addedPodCount{}, DependsOn: NodePods, NodeData: Snapshot}, true},
		"says no":        {Definition{Plugin: addedPodCount{}, DependsOn: NodePods, NodeData: Snapshot, ScoreCopies: &no}, false},
		"gets names":     {Definition{Plugin: addedPodCount{}, DependsOn: NodePods}, false},
		"says yes":       {Definition{Plugin: addedPodCount{}, DependsOn: NodePods, ScoreCopies: &yes}, true},
		"by the node":    {Definition{Plugin: addedPodCount{}, DependsOn: Node, NodeData: Snapshot}, false},
		"has no score":   {Definition{Plugin: counting{}, DependsOn: NodePods, NodeData: Snapshot, ScoreCopies: &yes}, false},
		"does not count": {Definition{Plugin: notCounting{}, DependsOn: NodePods, NodeData: Snapshot}, false},
	} {
		info, err := each.definition.describe(context.Background(), each.definition.Plugin)
		if err != nil || info.GetScoreCopies() != each.want {
			t.Errorf("%s: %v, %v", name, info.GetScoreCopies(), err)
		}
	}
}

// notCounting has a Filter without a capacity beside its Score.
type notCounting struct{ addedPodCount }

func (notCounting) Filter(context.Context, framework.CycleState, *v1.Pod, framework.NodeInfo) *framework.Status {
	return nil
}

// sorted orders pods by a label: the key of each, or that it has none.
type sorted struct {
	base
	keys map[string]framework.SortKey
}

func (s sorted) SortKey(_ context.Context, p *v1.Pod) (framework.SortKey, error) {
	if p.Labels["rank"] == "panics" {
		panic("out of ranks")
	}
	key, ok := s.keys[p.Labels["rank"]]
	if !ok {
		return key, errors.New("no key for " + p.Name)
	}
	return key, nil
}

// queueSort calls QueueSort for pods with these ranks.
func queueSort(t *testing.T, plugin framework.Plugin, ranks ...string) (*triremev1.QueueSortResponse, error) {
	t.Helper()
	client := triremev1.NewQueueServiceClient(served(t, Definition{Plugin: plugin}, Options{}))
	asked := &triremev1.QueueSortRequest{Profile: "p"}
	for _, rank := range ranks {
		asked.Pods = append(asked.Pods, &triremev1.Pod{Metadata: &triremev1.ObjectMeta{
			Name: "pod-" + rank, Labels: map[string]string{"rank": rank},
		}})
	}
	return client.QueueSort(context.Background(), asked)
}

// A key that reaches the scheduler otherwise than it was made puts pods in another order.
func TestKeysAreInTheOrderOfThePods(t *testing.T) {
	keys := map[string]framework.SortKey{
		"a": {Level: []int64{3}},
		"b": {Level: []int64{math.MinInt64, math.MaxInt64}, Rest: make([]int64, 16)},
	}
	response, err := queueSort(t, sorted{keys: keys}, "b", "a", "b")
	answer := response.GetKeys()
	if err != nil || len(answer) != 3 || len(response.GetStatuses()) != 0 {
		t.Fatalf("%v, %v", response, err)
	}
	for i, rank := range []string{"b", "a", "b"} {
		if want := keys[rank]; !slices.Equal(answer[i].GetLevel(), want.Level) || !slices.Equal(answer[i].GetRest(), want.Rest) {
			t.Errorf("pod %d of rank %s: %v", i, rank, answer[i])
		}
	}
	described, err := (&Definition{Plugin: sorted{}}).describe(context.Background(), sorted{})
	points := []triremev1.ExtensionPoint{triremev1.ExtensionPoint_EXTENSION_POINT_QUEUE_SORT}
	if err != nil || !slices.Equal(described.GetExtensionPoints(), points) {
		t.Errorf("%v, %v", described, err)
	}
}

// A mistake of the author that is not named keeps pods out of the queue without a reason that anybody can read; one about
// a pod must not keep the others out.
func TestAWrongKeyIsAnErrorThatSaysWhatIsExpected(t *testing.T) {
	keys := map[string]framework.SortKey{
		"empty": {},
		"long":  {Level: make([]int64, 17)},
		"rest":  {Level: []int64{1}, Rest: make([]int64, 18)},
		"good":  {Level: []int64{7}},
	}
	for rank, want := range map[string]string{
		"empty":   "returned a Level of 0 numbers: must be 1 to 16",
		"long":    "returned a Level of 17 numbers: must be 1 to 16",
		"rest":    "returned a Rest of 18 numbers: must be at most 16",
		"missing": "no key for pod-missing",
		"panics":  "panic: out of ranks",
	} {
		answer, err := queueSort(t, sorted{keys: keys}, "good", rank, "good")
		if err != nil || len(answer.GetStatuses()) != 3 || len(answer.GetKeys()) != 3 {
			t.Fatalf("%s: %v, %v", rank, answer, err)
		}
		failed := answer.GetStatuses()[1]
		if failed.GetCode() != triremev1.Code_CODE_ERROR || failed.GetMessages()[0] != "plugin P: QueueSort: SortKey: "+want {
			t.Errorf("%s: %v", rank, failed)
		}
		for _, i := range []int{0, 2} {
			if answer.GetStatuses()[i].GetCode() != triremev1.Code_CODE_SUCCESS || answer.GetKeys()[i].GetLevel()[0] != 7 {
				t.Errorf("beside %s: %v", rank, answer)
			}
		}
	}
}

// A key by another profile's arguments mixes the order of two teams.
func TestKeysAreByTheArgumentsOfTheProfile(t *testing.T) {
	factory := WithArgs(func(_ context.Context, args *struct {
		First int64 `json:"first"`
	}, _ framework.Handle) (framework.Plugin, error) {
		return sorted{keys: map[string]framework.SortKey{"": {Level: []int64{args.First}}}}, nil
	}, nil)
	connection := served(t, Definition{New: factory}, Options{})
	for profile, args := range map[string]string{"one": `{"first": 1}`, "two": `{"first": 2}`} {
		_, err := triremev1.NewPluginServiceClient(connection).Configure(context.Background(), &triremev1.ConfigureRequest{
			ConfigHash: 9, Profile: profile, ArgsJson: []byte(args),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for profile, want := range map[string]int64{"one": 1, "two": 2} {
		response, err := triremev1.NewQueueServiceClient(connection).QueueSort(context.Background(), &triremev1.QueueSortRequest{
			Profile: profile, ConfigHash: 9, Pods: []*triremev1.Pod{{}},
		})
		if err != nil || len(response.GetKeys()) != 1 || !slices.Equal(response.GetKeys()[0].GetLevel(), []int64{want}) {
			t.Errorf("profile %s: %v, %v", profile, response, err)
		}
	}
}

// waiting lets pods wait, and allows those that wait when asked.
type waiting struct {
	base
	handle framework.Handle
}

func (waiting) Permit(_ context.Context, _ framework.CycleState, p *v1.Pod, _ string) (*framework.Status, time.Duration) {
	switch p.Name {
	case "never":
		return framework.NewStatus(framework.Wait), 0
	case "longest":
		return framework.NewStatus(framework.Wait), math.MaxInt64
	case "now":
		return nil, 0
	}
	return framework.NewStatus(framework.Wait), time.Minute
}

// handles is a frontend.
type handles struct {
	triremev1.UnimplementedHandleServiceServer
	allowed chan *triremev1.AllowRequest
}

func (h handles) Allow(_ context.Context, request *triremev1.AllowRequest) (*triremev1.AllowResponse, error) {
	h.allowed <- request
	return &triremev1.AllowResponse{}, nil
}

func (h handles) Reject(context.Context, *triremev1.RejectRequest) (*triremev1.RejectResponse, error) {
	return nil, status.Error(codes.NotFound, "does not wait")
}

// A pod that a plugin cannot allow waits until its timeout, and is refused.
func TestAPodThatWaitsIsAllowedByTheHandle(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "frontend.sock"))
	if err != nil {
		t.Fatal(err)
	}
	frontend, allowed := grpc.NewServer(), make(chan *triremev1.AllowRequest, 1)
	triremev1.RegisterHandleServiceServer(frontend, handles{allowed: allowed})
	go func() { _ = frontend.Serve(listener) }()
	defer frontend.Stop()
	handle := make(chan framework.Handle, 1)
	factory := func(_ context.Context, _ []byte, h framework.Handle) (framework.Plugin, error) {
		select {
		case handle <- h:
		default:
		}
		return waiting{handle: h}, nil
	}
	connection := served(t, Definition{New: factory}, Options{Scheduler: "unix:" + listener.Addr().String()})
	_, err = triremev1.NewPluginServiceClient(connection).Configure(context.Background(), &triremev1.ConfigureRequest{ArgsJson: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	permit := &triremev1.PermitRequest{Cycle: &triremev1.Cycle{}}
	for _, name := range []string{"later", "never", "now", "longest"} {
		permit.Items = append(permit.Items, &triremev1.BindItem{Pod: &triremev1.PodIdentity{Name: name, Uid: name}})
	}
	response, err := triremev1.NewBindPluginClient(connection).Permit(context.Background(), permit)
	if err != nil {
		t.Fatal(err)
	}
	var found []triremev1.Code
	for _, result := range response.GetResults() {
		found = append(found, result.GetStatus().GetCode())
	}
	want := []triremev1.Code{triremev1.Code_CODE_WAIT, triremev1.Code_CODE_ERROR, triremev1.Code_CODE_SUCCESS, triremev1.Code_CODE_WAIT}
	if err := response.GetResults()[3].GetTimeout().CheckValid(); err != nil {
		t.Errorf("the longest time is none that the message may have: %v", err)
	}
	if !slices.Equal(found, want) || response.GetResults()[0].GetTimeout().AsDuration() != time.Minute {
		t.Errorf("results %v", response)
	}
	h := <-handle
	var names []string
	h.IterateOverWaitingPods(func(pod framework.WaitingPod) { names = append(names, pod.GetPod().Name) })
	slices.Sort(names)
	if !slices.Equal(names, []string{"later", "longest"}) || h.RejectWaitingPod("later") || h.RejectWaitingPod("now") {
		t.Errorf("waiting: %v", names)
	}
	h.GetWaitingPod("later").Allow("P")
	if request := <-allowed; request.GetPlugin() != "P" || request.GetPod().GetUid() != "later" {
		t.Errorf("allowed %v", request)
	}
	if h.GetWaitingPod("later") != nil {
		t.Error("the allowed pod still waits")
	}
}

// hinted registers a hint for labels of nodes.
type hinted struct{ filtering }

func (hinted) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{
		{
			Event: framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add | framework.UpdateNodeLabel},
			QueueingHintFn: func(_ klog.Logger, _ *v1.Pod, older, newer any) (framework.QueueingHint, error) {
				before, _ := older.(*v1.Node)
				if before != nil && before.Labels["a"] == newer.(*v1.Node).Labels["a"] {
					return framework.QueueSkip, nil
				}
				return framework.Queue, nil
			},
		},
		{Event: framework.ClusterEvent{Resource: framework.AssignedPod, ActionType: framework.Delete}},
	}, nil
}

// A hint that is asked wrongly leaves pods unscheduled that fit.
func TestHintsSeeTheObjects(t *testing.T) {
	client := triremev1.NewQueueServiceClient(served(t, Definition{Plugin: hinted{}}, Options{}))
	node := func(label string) []byte {
		return []byte(`{"metadata": {"name": "n", "labels": {"a": "` + label + `"}}}`)
	}
	for _, one := range []struct {
		resource, action string
		older, newer     []byte
		hint             triremev1.Hint
	}{
		{"Node", "UpdateNodeLabel", node("1"), node("1"), triremev1.Hint_HINT_QUEUE_SKIP},
		{"Node", "UpdateNodeLabel", node("1"), node("2"), triremev1.Hint_HINT_QUEUE},
		{"Node", "Add", nil, node("1"), triremev1.Hint_HINT_QUEUE},
		{"AssignedPod", "Delete", []byte(`{}`), nil, triremev1.Hint_HINT_QUEUE},
	} {
		response, err := client.QueueingHint(context.Background(), &triremev1.QueueingHintRequest{
			Event:   &triremev1.ClusterEvent{Resource: one.resource, Actions: []string{one.action}},
			OldJson: one.older, NewJson: one.newer, Pods: []*triremev1.Pod{{}},
		})
		if err != nil || !slices.Equal(response.GetHints(), []triremev1.Hint{one.hint}) {
			t.Errorf("%s %s: %v, %v", one.resource, one.action, response, err)
		}
	}
}

// wakes registers a hint that only a node's zone of the arguments passes.
type wakes struct {
	filtering
	zone string
}

func (w wakes) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{{
		Event: framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add},
		QueueingHintFn: func(_ klog.Logger, _ *v1.Pod, _, newer any) (framework.QueueingHint, error) {
			if newer.(*v1.Node).Name == w.zone {
				return framework.Queue, nil
			}
			return framework.QueueSkip, nil
		},
	}}, nil
}

// A hint with another profile's arguments leaves pods unscheduled that fit.
func TestHintsHaveTheArgumentsOfThePodsProfile(t *testing.T) {
	factory := WithArgs(func(_ context.Context, args *struct {
		Zone string `json:"zone"`
	}, _ framework.Handle) (framework.Plugin, error) {
		return wakes{zone: args.Zone}, nil
	}, nil)
	connection := served(t, Definition{New: factory, Idempotent: true}, Options{})
	plugin := triremev1.NewPluginServiceClient(connection)
	info, err := plugin.GetPluginInfo(context.Background(), &triremev1.GetPluginInfoRequest{})
	if err != nil || !info.GetPlugins()[0].GetIdempotent() {
		t.Errorf("the plugin does not say that it is idempotent: %v, %v", info, err)
	}
	for profile, zone := range map[string]string{"one": "east", "two": "west"} {
		answer, err := plugin.Configure(context.Background(), &triremev1.ConfigureRequest{
			ConfigHash: 9, Profile: profile, ArgsJson: []byte(`{"zone": "` + zone + `"}`),
		})
		if err != nil || len(answer.GetErrors()) > 0 {
			t.Fatal(answer, err)
		}
	}
	pod := func(profile string) *triremev1.Pod {
		return &triremev1.Pod{Spec: &triremev1.PodSpec{SchedulerName: profile}}
	}
	response, err := triremev1.NewQueueServiceClient(connection).QueueingHint(
		context.Background(), &triremev1.QueueingHintRequest{
			Event:   &triremev1.ClusterEvent{Resource: "Node", Actions: []string{"Add"}},
			NewJson: []byte(`{"metadata": {"name": "west"}}`), ConfigHash: 9,
			Pods: []*triremev1.Pod{pod("one"), pod("two")},
		})
	wanted := []triremev1.Hint{triremev1.Hint_HINT_QUEUE_SKIP, triremev1.Hint_HINT_QUEUE}
	if err != nil || !slices.Equal(response.GetHints(), wanted) {
		t.Errorf("hints: %v, %v", response, err)
	}
}

// lateReserving waits in Reserve until its caller has given up.
type lateReserving struct {
	filtering
	reserved chan string
}

func (l lateReserving) Reserve(
	ctx context.Context, _ framework.CycleState, pod *v1.Pod, _ string,
) *framework.Status {
	l.reserved <- pod.Name
	<-ctx.Done()
	return nil
}

func (lateReserving) Unreserve(context.Context, framework.CycleState, *v1.Pod, string) {}

// What is taken after the caller's Unreserve is lost.
func TestReserveTakesNothingOnceItsCallerHasGivenUp(t *testing.T) {
	plugin := lateReserving{reserved: make(chan string, 2)}
	connection := served(t, Definition{Plugin: plugin, MaxConcurrentCalls: 1}, Options{})
	client := triremev1.NewFilterPluginClient(connection)
	placement := func(name string) *triremev1.Placement {
		return &triremev1.Placement{Pod: &triremev1.PodIdentity{Name: name}, NodeName: "a"}
	}
	placements := []*triremev1.Placement{placement("one"), placement("two")}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := client.Reserve(ctx, &triremev1.ReserveRequest{Placements: placements}); err == nil {
		t.Error("the call is answered")
	}
	// Its turn comes when the call above has ended.
	_, err := client.Unreserve(context.Background(), &triremev1.UnreserveRequest{Placements: placements})
	if len(plugin.reserved) != 1 || err != nil {
		t.Errorf("%d pods reserved, %v", len(plugin.reserved), err)
	}
}
