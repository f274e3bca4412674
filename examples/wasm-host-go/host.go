// Also change: docs/moving-to-plugins.md.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	v1 "k8s.io/api/core/v1"

	"trireme.dev/sdk/go/framework"
)

const i32 = api.ValueTypeI32

// notRun are functions of guests that this host does not call: those of steps that it does not serve.
var notRun = []string{"postfilter", "normalizescore", "reserve", "unreserve", "permit", "prebind", "bind", "postbind"}

// host compiles one guest, and offers it the functions that kube-scheduler-wasm-extension offers.
type host struct {
	runtime wazero.Runtime
	module  wazero.CompiledModule
}

// newHost compiles the guest. One that has neither filter nor score is refused.
func newHost(ctx context.Context, binary []byte) (*host, error) {
	h := &host{runtime: wazero.NewRuntime(ctx)}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, h.runtime); err != nil {
		return nil, err
	}
	for _, offer := range []func(context.Context, wazero.Runtime) error{offerObjects, offerScheduler, offerLog} {
		if err := offer(ctx, h.runtime); err != nil {
			return nil, err
		}
	}
	var err error
	if h.module, err = h.runtime.CompileModule(ctx, binary); err != nil {
		return nil, fmt.Errorf("is no WebAssembly module: %w", err)
	}
	if !h.exports("filter") && !h.exports("score") {
		return nil, errors.New("the guest exports neither filter nor score")
	}
	return h, nil
}

// others are the functions that the guest exports and that are not called. Many guests export all, and do nothing in most.
func (h *host) others() []string {
	return slices.DeleteFunc(slices.Clone(notRun), func(name string) bool { return !h.exports(name) })
}

func (h *host) exports(function string) bool {
	_, ok := h.module.ExportedFunctions()[function]
	return ok
}

func (h *host) Close(ctx context.Context) { h.runtime.Close(ctx) }

// call is what a guest's function is about, and what it answers beside its number.
type call struct {
	pod    *v1.Pod
	nodes  []*v1.Node
	config string
	reason string
}

type callKey struct{}

func current(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// node is the only node of the call; empty where there is none.
func (c *call) node() *v1.Node {
	if len(c.nodes) == 0 {
		return &v1.Node{}
	}
	return c.nodes[0]
}

// marshaler is an object of Kubernetes, which guests get in the protobuf encoding.
type marshaler interface{ Marshal() ([]byte, error) }

// writing is a host function (buf, limit) -> length: it writes the value if it fits, and always returns its length.
func writing(value func(*call) ([]byte, error)) api.GoModuleFunc {
	return func(ctx context.Context, guest api.Module, stack []uint64) {
		data, err := value(current(ctx))
		if err != nil {
			panic(err)
		}
		if len(data) <= int(uint32(stack[1])) && !guest.Memory().Write(uint32(stack[0]), data) {
			panic("the guest's buffer is outside of its memory")
		}
		stack[0] = uint64(uint32(len(data)))
	}
}

// object is the value of a message for `writing`.
func object(of func(*call) marshaler) func(*call) ([]byte, error) {
	return func(c *call) ([]byte, error) { return of(c).Marshal() }
}

// list is the nodes of the call as guests get them.
func (c *call) list() marshaler {
	list := &v1.NodeList{}
	for _, node := range c.nodes {
		list.Items = append(list.Items, *node)
	}
	return list
}

func offerObjects(ctx context.Context, runtime wazero.Runtime) error {
	builder := runtime.NewHostModuleBuilder("k8s.io/api")
	// A guest asks for a node by name; it has the one that the call is about.
	node := api.GoModuleFunc(func(ctx context.Context, guest api.Module, stack []uint64) {
		name, _ := guest.Memory().Read(uint32(stack[0]), uint32(stack[1]))
		if own := current(ctx).node().Name; string(name) != own {
			panic(fmt.Sprintf("node %q: only the node of the call, %q, can be read", name, own))
		}
		copy(stack, stack[2:])
		writing(object(func(c *call) marshaler { return c.node() }))(ctx, guest, stack)
	})
	builder = builder.NewFunctionBuilder().
		WithGoModuleFunction(node, []api.ValueType{i32, i32, i32, i32}, []api.ValueType{i32}).Export("node")
	read := map[string]func(*call) ([]byte, error){"nodeList": object((*call).list)}
	_, err := offer(builder, read, nil).Instantiate(ctx)
	return err
}

func offerScheduler(ctx context.Context, runtime wazero.Runtime) error {
	pod := object(func(c *call) marshaler { return c.pod })
	read := map[string]func(*call) ([]byte, error){
		"get_config":       func(c *call) ([]byte, error) { return []byte(c.config), nil },
		"currentNodeName":  func(c *call) ([]byte, error) { return []byte(c.node().Name), nil },
		"currentPod":       pod,
		"targetPod":        pod,
		"filteredNodeList": object((*call).list),
	}
	ignore := func(*call, []byte) {}
	write := map[string]func(*call, []byte){
		"result.status_reason": func(c *call, data []byte) { c.reason = string(data) },
		// What prefilter and enqueue answer beside their number is not used.
		"result.node_names":     ignore,
		"result.cluster_events": ignore,
		// The host has no access to the API server: an event becomes a line of the log.
		"handle.eventrecorder.eventf": func(_ *call, data []byte) { slog.Info("guest", "event", string(data)) },
	}
	builder := offer(runtime.NewHostModuleBuilder("k8s.io/scheduler"), read, write)
	for name, types := range notOffered {
		refuse := api.GoModuleFunc(func(context.Context, api.Module, []uint64) {
			panic(name + " is not offered: this host runs filter and score")
		})
		builder = builder.NewFunctionBuilder().WithGoModuleFunction(refuse, types.parameters, types.results).Export(name)
	}
	_, err := builder.Instantiate(ctx)
	return err
}

type signature struct{ parameters, results []api.ValueType }

// notOffered are functions that guests import and that belong to other steps. They can be linked, and fail when called.
var notOffered = map[string]signature{
	"nodeToStatusMap":              {[]api.ValueType{i32, i32}, []api.ValueType{i32}},
	"nodeScoreList":                {[]api.ValueType{i32, i32}, []api.ValueType{i32}},
	"nodeImageStates":              {[]api.ValueType{i32, i32, i32, i32}, []api.ValueType{i32}},
	"result.nominated_node_name":   {[]api.ValueType{i32, i32}, nil},
	"result.normalized_score_list": {[]api.ValueType{i32, i32}, nil},
	"handle.reject_waiting_pod":    {[]api.ValueType{i32, i32, i32, i32}, nil},
	"handle.get_waiting_pod":       {[]api.ValueType{i32, i32, i32, i32}, nil},
}

// offer adds functions that the guest reads from, and functions (buf, length) that it writes to.
func offer(
	builder wazero.HostModuleBuilder,
	read map[string]func(*call) ([]byte, error), write map[string]func(*call, []byte),
) wazero.HostModuleBuilder {
	for name, value := range read {
		builder = builder.NewFunctionBuilder().
			WithGoModuleFunction(writing(value), []api.ValueType{i32, i32}, []api.ValueType{i32}).Export(name)
	}
	for name, take := range write {
		function := api.GoModuleFunc(func(ctx context.Context, guest api.Module, stack []uint64) {
			data, ok := guest.Memory().Read(uint32(stack[0]), uint32(stack[1]))
			if !ok {
				panic("the guest's result is outside of its memory")
			}
			take(current(ctx), bytes.Clone(data))
		})
		builder = builder.NewFunctionBuilder().WithGoModuleFunction(function, []api.ValueType{i32, i32}, nil).Export(name)
	}
	return builder
}

func offerLog(ctx context.Context, runtime wazero.Runtime) error {
	log := api.GoModuleFunc(func(ctx context.Context, guest api.Module, stack []uint64) {
		if text, ok := guest.Memory().Read(uint32(stack[1]), uint32(stack[2])); ok {
			slog.InfoContext(ctx, "guest", "message", string(text), "severity", int32(stack[0]))
		}
	})
	severity := api.GoModuleFunc(func(_ context.Context, _ api.Module, stack []uint64) { stack[0] = 0 })
	_, err := runtime.NewHostModuleBuilder("k8s.io/klog").
		NewFunctionBuilder().WithGoModuleFunction(log, []api.ValueType{i32, i32, i32}, nil).Export("log").
		NewFunctionBuilder().WithGoModuleFunction(log, []api.ValueType{i32, i32, i32, i32, i32}, nil).Export("logs").
		NewFunctionBuilder().WithGoModuleFunction(severity, nil, []api.ValueType{i32}).Export("severity").
		Instantiate(ctx)
	return err
}

// pool keeps the guests of one profile. A guest takes one call at a time; there are as many as calls at once.
type pool struct {
	host   *host
	config string
	mutex  sync.Mutex
	idle   []*guest
}

func (p *pool) take(ctx context.Context) (*guest, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if last := len(p.idle) - 1; last >= 0 {
		found := p.idle[last]
		p.idle = p.idle[:last]
		return found, nil
	}
	return newGuest(ctx, p.host, p.config)
}

func (p *pool) put(g *guest) {
	if g.failed {
		g.module.Close(context.Background())
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.idle = append(p.idle, g)
}

// guest is one instance of the module.
type guest struct {
	module api.Module
	call   *call
	// Its memory may be in any state after a failure, so it is not used again.
	failed bool
	// The pod that it was last prepared for.
	prepared *v1.Pod
	skips    bool
}

func newGuest(ctx context.Context, h *host, config string) (*guest, error) {
	g := &guest{call: &call{config: config, pod: &v1.Pod{}}}
	var output bytes.Buffer
	// TinyGo's guests begin with _start, those of Go's compiler with _initialize; instances have no name.
	settings := wazero.NewModuleConfig().WithName("").WithStartFunctions("_start", "_initialize").
		WithStdout(&output).WithStderr(&output).WithSysWalltime().WithSysNanotime()
	module, err := h.runtime.InstantiateModule(context.WithValue(ctx, callKey{}, g.call), h.module, settings)
	if err != nil {
		return nil, fmt.Errorf("the guest does not start: %w: %s", err, output.String())
	}
	g.module = module
	return g, nil
}

// filter calls prefilter, where the guest has it and has not seen the pod, and filter.
func (g *guest) filter(ctx context.Context, pod *v1.Pod, node *v1.Node) *framework.Status {
	if status := g.prepare(ctx, pod); status != nil {
		return status
	}
	if g.skips {
		return nil
	}
	g.call.nodes = []*v1.Node{node}
	result, err := g.run(ctx, "filter")
	return g.status(int32(result), err)
}

// score calls prefilter and prescore, where the guest has them, and score. The only node of prescore is this one.
func (g *guest) score(ctx context.Context, pod *v1.Pod, node *v1.Node) (int64, *framework.Status) {
	if status := g.prepare(ctx, pod); status != nil {
		return 0, status
	}
	g.call.nodes = []*v1.Node{node}
	if g.module.ExportedFunction("prescore") != nil {
		result, err := g.run(ctx, "prescore")
		if status := g.status(int32(result), err); status != nil {
			if status.Code() == framework.Skip {
				return 0, nil
			}
			return 0, status
		}
	}
	result, err := g.run(ctx, "score")
	return int64(int32(result >> 32)), g.status(int32(result), err)
}

// prepare has the guest begin with the pod: its prefilter drops what it remembers of another one.
func (g *guest) prepare(ctx context.Context, pod *v1.Pod) *framework.Status {
	if g.prepared == pod {
		return nil
	}
	g.call.pod, g.call.nodes, g.skips = pod, nil, false
	if g.module.ExportedFunction("prefilter") != nil {
		result, err := g.run(ctx, "prefilter")
		status := g.status(int32(result), err)
		if status != nil && status.Code() != framework.Skip {
			return status
		}
		g.skips = status != nil
	}
	g.prepared = pod
	return nil
}

func (g *guest) run(ctx context.Context, function string) (uint64, error) {
	g.call.reason = ""
	results, err := g.module.ExportedFunction(function).Call(context.WithValue(ctx, callKey{}, g.call))
	if err != nil {
		g.failed = true
		slog.ErrorContext(ctx, "guest failed", "function", function, "error", err)
		text, _, _ := strings.Cut(err.Error(), "\n") // without the stack
		return 0, fmt.Errorf("the guest's %s: %s", function, text)
	}
	return results[0], nil
}

// status is a guest's number, whose values are those of the framework's codes, and its reason; nil for success.
func (g *guest) status(code int32, err error) *framework.Status {
	if err != nil {
		return framework.AsStatus(err)
	}
	if framework.Code(code) == framework.Success {
		return nil
	}
	return framework.NewStatus(framework.Code(code), g.call.reason)
}
