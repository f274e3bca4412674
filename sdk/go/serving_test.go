package trireme

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}

// base is a plugin without extension points.
type base struct{}

func (base) Name() string { return "P" }

// filtering is a plugin whose Filter is a function.
type filtering struct {
	base
	filter func(node framework.NodeInfo, state framework.CycleState) *framework.Status
}

func (f filtering) Filter(_ context.Context, state framework.CycleState, _ *v1.Pod, node framework.NodeInfo) *framework.Status {
	return f.filter(node, state)
}

// served is the connection to a plugin that is served for the test.
func served(t *testing.T, definition Definition, options Options) *grpc.ClientConn {
	t.Helper()
	address := start(t, definition, options)
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}

// start serves a plugin until the test ends, and returns its address.
func start(t *testing.T, definition Definition, options Options) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	addresses, ended := make(chan string, 1), make(chan error, 1)
	options.Listening = func(address string) { addresses <- address }
	if options.Listen == "" {
		options.Listen = "unix:" + filepath.Join(t.TempDir(), "p.sock")
	}
	go func() { ended <- Serve(ctx, definition, options) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serving ended with %v", err)
		}
	})
	select {
	case address := <-addresses:
		return address
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
		return ""
	}
}

func request(names ...string) *triremev1.FilterRequest {
	nodes := &triremev1.NodeSelection{}
	for _, name := range names {
		nodes.Nodes = append(nodes.Nodes, &triremev1.NodeView{Name: name})
	}
	return &triremev1.FilterRequest{Cycle: &triremev1.Cycle{Generation: 7}, Nodes: nodes}
}

// Each entry of the columns is what the scheduler decides by.
func TestResultsBecomeColumns(t *testing.T) {
	plugin := filtering{filter: func(node framework.NodeInfo, _ framework.CycleState) *framework.Status {
		switch node.Name() {
		case "full":
			return framework.NewStatus(framework.Unschedulable, "was full").WithReason("full", map[string]string{"at": "3"})
		case "wrong":
			return framework.NewStatus(framework.Wait)
		case "failed":
			return framework.AsStatus(errors.New("no index"))
		}
		return nil
	}}
	client := triremev1.NewFilterPluginClient(served(t, Definition{Plugin: plugin, DependsOn: Node}, Options{}))
	response, err := client.Filter(context.Background(), request("a", "full", "wrong", "full", "failed"))
	if err != nil {
		t.Fatal(err)
	}
	columns := response.GetColumns()
	if !slices.Equal(columns.GetStatusIndex(), []uint32{0, 1, 2, 1, 3}) || columns.GetSize() != 5 || columns.GetGeneration() != 7 {
		t.Errorf("columns %v", columns)
	}
	if capacity := columns.GetCapacity(); !slices.Equal(capacity, []int32{1<<31 - 1, 0, 0, 0, 0}) {
		t.Errorf("capacity %v", capacity)
	}
	full, wrong, failed := columns.GetStatuses()[0], columns.GetStatuses()[1], columns.GetStatuses()[2]
	if full.GetPlugin() != "P" || full.GetMessages()[0] != "was full" || full.GetReasons()[0].GetParameters()["at"] != "3" {
		t.Errorf("status %v", full)
	}
	if wrong.GetCode() != triremev1.Code_CODE_ERROR || !strings.Contains(wrong.GetMessages()[0], "Filter returned Wait") {
		t.Errorf("status %v", wrong)
	}
	if failed.GetCode() != triremev1.Code_CODE_ERROR || failed.GetMessages()[0] != "no index" {
		t.Errorf("status %v", failed)
	}
}

// A plugin that does not count, and whose answers depend on pods, must not be given a batch for one answer.
func TestWithoutCountingOneCopyFitsWherePodsMatter(t *testing.T) {
	plugin := filtering{filter: func(framework.NodeInfo, framework.CycleState) *framework.Status { return nil }}
	client := triremev1.NewFilterPluginClient(served(t, Definition{Plugin: plugin, DependsOn: NodePods}, Options{}))
	response, err := client.Filter(context.Background(), request("a"))
	if err != nil || !slices.Equal(response.GetColumns().GetCapacity(), []int32{1}) {
		t.Errorf("%v, %v", response, err)
	}
}

// A plugin's mistake that ends the process takes all pods of its profiles with it.
func TestAPanicIsAnErrorThatNamesPluginAndStep(t *testing.T) {
	calls := 0
	plugin := filtering{filter: func(framework.NodeInfo, framework.CycleState) *framework.Status {
		calls++
		if calls == 1 {
			panic("index out of range")
		}
		return nil
	}}
	client := triremev1.NewFilterPluginClient(served(t, Definition{Plugin: plugin}, Options{}))
	_, err := client.Filter(context.Background(), request("a"))
	if status.Code(err) != codes.Internal || status.Convert(err).Message() != "plugin P: Filter: panic: index out of range" {
		t.Errorf("first call: %v", err)
	}
	if _, err := client.Filter(context.Background(), request("a")); err != nil {
		t.Errorf("second call: %v", err)
	}
}

// Further calls than the plugin takes must wait, and their callers may give up.
func TestCallsBeyondTheLimitWait(t *testing.T) {
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	plugin := filtering{filter: func(framework.NodeInfo, framework.CycleState) *framework.Status {
		entered <- struct{}{}
		<-leave
		return nil
	}}
	client := triremev1.NewFilterPluginClient(served(t, Definition{Plugin: plugin, MaxConcurrentCalls: 1}, Options{}))
	first := make(chan error)
	go func() {
		_, err := client.Filter(context.Background(), request("a"))
		first <- err
	}()
	<-entered
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if _, err := client.Filter(ctx, request("a")); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("second call: %v", err)
	}
	close(leave)
	if err := <-first; err != nil {
		t.Errorf("first call: %v", err)
	}
}

// A method that hangs must not keep a stopping process.
func TestStoppingDoesNotWaitForAMethodThatHangs(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	defer close(leave)
	plugin := filtering{filter: func(framework.NodeInfo, framework.CycleState) *framework.Status {
		close(entered)
		<-leave
		return nil
	}}
	ctx, cancel := context.WithCancel(context.Background())
	addresses, ended := make(chan string, 1), make(chan error, 1)
	options := Options{Grace: time.Millisecond, Listening: func(address string) { addresses <- address }}
	go func() { ended <- Serve(ctx, Definition{Plugin: plugin}, options) }()
	connection, err := grpc.NewClient(<-addresses, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	go func() { _, _ = triremev1.NewFilterPluginClient(connection).Filter(ctx, request("a")) }()
	<-entered
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("serving ended with %v", err)
	}
}

// A deposed leader that is answered places pods beside its successor.
func TestADeposedLeaderIsRefusedWithItsReason(t *testing.T) {
	plugin := filtering{filter: func(framework.NodeInfo, framework.CycleState) *framework.Status { return nil }}
	client := triremev1.NewFilterPluginClient(served(t, Definition{Plugin: plugin}, Options{}))
	call := func(scheduler string, epoch uint64) (string, error) {
		asked, trailer := request("a"), metadata.MD{}
		asked.Cycle.Fence = &triremev1.Fence{SchedulerId: scheduler, Epoch: epoch}
		_, err := client.Filter(context.Background(), asked, grpc.Trailer(&trailer))
		return strings.Join(trailer.Get(reasonMetadata), ""), err
	}
	for _, one := range []struct {
		scheduler string
		epoch     uint64
		code      codes.Code
	}{
		{"a", 9, codes.OK}, {"a", 8, codes.FailedPrecondition}, {"b", 3, codes.OK}, {"a", 9, codes.OK}, {"a", 0, codes.OK},
	} {
		reason, err := call(one.scheduler, one.epoch)
		if status.Code(err) != one.code || (err != nil) != (reason == reasonStaleEpoch) {
			t.Errorf("%v: %v, reason %q", one, err, reason)
		}
	}
}

// A plugin that test clusters call for weeks must not grow with each of them.
func TestABoundedNumberOfSchedulersIsRemembered(t *testing.T) {
	epochs := newEpochs()
	for i := range 10 * maxSchedulers {
		if err := epochs.admit(&triremev1.Fence{SchedulerId: string(rune('a' + i)), Epoch: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if len(epochs.highest) != maxSchedulers || len(epochs.order) != maxSchedulers {
		t.Errorf("remembers %d and %d schedulers", len(epochs.highest), len(epochs.order))
	}
}

// An operator who cannot see how long calls take cannot choose a deadline.
func TestMetricsHaveTheCalls(t *testing.T) {
	metrics := newMetrics("P")
	metrics.observe("/trireme.v1.FilterPlugin/Filter", time.Now(), nil)
	families, err := metrics.gatherers.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := slices.ContainsFunc(families, func(family *dto.MetricFamily) bool {
		return family.GetName() == "trireme_plugin_call_duration_seconds" &&
			family.GetMetric()[0].GetHistogram().GetSampleCount() == 1
	})
	if !found {
		t.Errorf("metrics %v", families)
	}
}

// What a plugin says wrongly of itself must be found at its start, not by the scheduler.
func TestAWrongDefinitionIsRefused(t *testing.T) {
	factory := WithArgs(func(context.Context, *struct{}, framework.Handle) (framework.Plugin, error) {
		return nil, errors.New("no index")
	}, nil)
	for text, definition := range map[string]Definition{
		"exactly one of Plugin and New":   {},
		"has no method of an extension":   {Plugin: base{}},
		"Prototype must be set: no index": {New: factory},
		"DependsOn must not be Node":      {Plugin: counting{}, DependsOn: Node},
	} {
		err := Serve(context.Background(), definition, Options{})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("want %q, got %v", text, err)
		}
	}
}

type counting struct{ base }

func (counting) FilterCapacity(
	_ context.Context, _ framework.CycleState, _ *v1.Pod, node framework.NodeInfo, wanted int,
) (int, *framework.Status) {
	return min(wanted, 4-len(node.GetPods())), nil
}

// A plugin would run with a scheduler that lacks what it needs, and answer wrongly.
func TestACallerWithoutARequiredFeatureIsRefused(t *testing.T) {
	passing := filtering{filter: func(framework.NodeInfo, framework.CycleState) *framework.Status { return nil }}
	connection := served(t, Definition{Plugin: passing, RequiredFeatures: []string{"one", "two", "three"}}, Options{})
	plugin := triremev1.NewPluginServiceClient(connection)
	_, err := plugin.GetPluginInfo(context.Background(), &triremev1.GetPluginInfoRequest{Features: []string{"two"}})
	text := "required_features: the caller does not know one, three; update the scheduler"
	if status.Code(err) != codes.FailedPrecondition || status.Convert(err).Message() != text {
		t.Error(err)
	}
	request := &triremev1.GetPluginInfoRequest{Features: []string{"four", "three", "two", "one"}}
	answer, err := plugin.GetPluginInfo(context.Background(), request)
	if err != nil || !slices.Equal(answer.GetPlugins()[0].GetRequiredFeatures(), []string{"one", "two", "three"}) {
		t.Error(answer, err)
	}
}
