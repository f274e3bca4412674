// Command podlimit serves the scheduler plugin PodLimit: nodes with the label example.com/pod-limit take only so many
// pods. How many pods a node has is not part of the node, so the plugin follows the snapshot stream.
//
//	podlimit --listen 127.0.0.1:9000
package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"math"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"trireme.dev/examples/plugin-go/triremev1"
)

const (
	pluginName = "PodLimit"
	limitLabel = "example.com/pod-limit"

	// Chunks of a full sync stay below this.
	maxMessageBytes = 16 << 20

	// How long calls under way may take after SIGTERM.
	grace = time.Second
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "host:port or unix:/path to serve on")
	flag.Parse()
	if err := run(*listen); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

// run serves until SIGTERM or SIGINT.
func run(listen string) error {
	network, address, described := "tcp", listen, ""
	if path, unix := strings.CutPrefix(listen, "unix:"); unix {
		network, address, described = "unix", path, "unix:"
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	plugin := newPodLimit()
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessageBytes))
	triremev1.RegisterPluginServiceServer(server, plugin)
	triremev1.RegisterFilterPluginServer(server, plugin)
	triremev1.RegisterSnapshotFollowerServer(server, plugin.cluster)
	healthy := health.NewServer()
	for name := range server.GetServiceInfo() {
		healthy.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	healthpb.RegisterHealthServer(server, healthy)
	reflection.Register(server)
	go func() {
		<-ctx.Done()
		// Callers go elsewhere first; calls under way may finish, but the stream does not end by itself.
		healthy.Shutdown()
		timer := time.AfterFunc(grace, server.Stop)
		defer timer.Stop()
		server.GracefulStop()
	}()
	fmt.Printf("listening on %s%s\n", described, listener.Addr())
	return server.Serve(listener)
}

// podLimit is the plugin.
type podLimit struct {
	triremev1.UnimplementedPluginServiceServer
	triremev1.UnimplementedFilterPluginServer
	cluster *cluster
	info    *triremev1.GetPluginInfoResponse
}

func newPodLimit() *podLimit {
	instance := rand.Text()
	return &podLimit{cluster: newCluster(instance), info: &triremev1.GetPluginInfoResponse{
		Instance: instance,
		Plugins: []*triremev1.PluginInfo{{
			Name:            pluginName,
			Version:         "1.0.0",
			ExtensionPoints: []triremev1.ExtensionPoint{triremev1.ExtensionPoint_EXTENSION_POINT_FILTER},
			// Called again about a node whose pods have changed.
			DependsOn: triremev1.Dependency_DEPENDENCY_NODE_PODS,
			NodeData:  triremev1.NodeData_NODE_DATA_SNAPSHOT,
			PodFields: []string{"metadata.namespace"},
			EventsToRegister: []*triremev1.ClusterEvent{
				{Resource: "Node", Actions: []string{"Add", "UpdateNodeLabel"}},
				{Resource: "AssignedPod", Actions: []string{"Delete"}},
			},
		}},
	}}
}

// GetPluginInfo is the handshake.
func (p *podLimit) GetPluginInfo(
	context.Context, *triremev1.GetPluginInfoRequest,
) (*triremev1.GetPluginInfoResponse, error) {
	return p.info, nil
}

// Filter answers how many copies of the pod fit on the nodes, which are named by slot.
func (p *podLimit) Filter(ctx context.Context, request *triremev1.FilterRequest) (*triremev1.FilterResponse, error) {
	answer := newColumns(request.GetCycle())
	err := p.cluster.read(ctx, request.GetCycle(), func() {
		for _, slot := range request.GetNodes().GetSlots() {
			answer.add(p.room(slot, 0))
		}
	})
	return &triremev1.FilterResponse{Columns: answer.columns}, err
}

// FilterDryRun is Filter as if pods were gone or there: who follows the stream gets them by row and class.
func (p *podLimit) FilterDryRun(
	ctx context.Context, request *triremev1.FilterDryRunRequest,
) (*triremev1.FilterDryRunResponse, error) {
	answer := newColumns(request.GetCycle())
	err := p.cluster.read(ctx, request.GetCycle(), func() {
		for _, run := range request.GetRuns() {
			answer.add(p.room(run.GetSlot(), len(run.GetAddedClasses())-len(run.GetRemovedRows())))
		}
	})
	return &triremev1.FilterDryRunResponse{Columns: answer.columns}, err
}

// answer is columns under construction.
type answer struct {
	columns *triremev1.NodeColumns
}

func newColumns(cycle *triremev1.Cycle) answer {
	return answer{&triremev1.NodeColumns{Generation: cycle.GetGeneration()}}
}

// add appends a node that takes so many pods.
func (a answer) add(capacity int32) {
	index := uint32(0)
	if capacity == 0 {
		if len(a.columns.Statuses) == 0 {
			a.columns.Statuses = append(a.columns.Statuses, full())
		}
		index = 1
	}
	a.columns.StatusIndex = append(a.columns.StatusIndex, index)
	a.columns.Capacity = append(a.columns.Capacity, capacity)
	a.columns.Size++
}

// room is how many pods the node at the slot takes beside those that it has and `more`.
func (p *podLimit) room(slot uint32, more int) int32 {
	limit, err := strconv.ParseUint(p.cluster.labels[slot][limitLabel], 10, 31)
	if err != nil {
		return math.MaxInt32
	}
	return int32(max(int(limit)-p.cluster.pods[slot]-more, 0))
}

func full() *triremev1.Status {
	return &triremev1.Status{
		Code:     triremev1.Code_CODE_UNSCHEDULABLE,
		Plugin:   pluginName,
		Messages: []string{"node(s) had as many pods as they may"},
	}
}
