// Also change: internal/trireme/framework/programs.py (the line by which a process says that it serves).
// Also change: internal/trireme/rpc/message_sizes.py (size of messages).

// Command score-phase-go is a score phase of Trireme in Go, in place of `cmd/score`: it serves the same contract, for
// profiles that score with NodeResourcesFit, NodeResourcesBalancedAllocation and TaintToleration.
//
//	score-phase-go --listen unix:/run/trireme/score.sock
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"trireme.dev/sdk/go/triremev1"
)

const (
	// A message between the frontend and a phase is at most so long.
	maxMessageBytes = 64 << 20

	// How long calls under way may take after SIGTERM.
	grace = 10 * time.Second
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "unix:/path, or host:port of this machine, to serve on without TLS")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "Error: unknown argument %q; --help lists the flags\n", flag.Arg(0))
		os.Exit(2)
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err := serve(ctx, *listen, func(address string) { fmt.Println("listening on " + address) })
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

// serve serves the phase until the context ends; listening is called with the address.
func serve(ctx context.Context, listen string, listening func(string)) error {
	listener, err := listenOn(listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessageBytes), grpc.MaxSendMsgSize(maxMessageBytes))
	phase := newPhase(ctx.Done())
	triremev1.RegisterScorePhaseServer(server, phase)
	triremev1.RegisterSnapshotFollowerServer(server, phase.follower)
	triremev1.RegisterPluginServiceServer(server, plugins{})
	healthy := health.NewServer()
	for name := range server.GetServiceInfo() {
		healthy.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	healthpb.RegisterHealthServer(server, healthy)
	reflection.Register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if path, ok := strings.CutPrefix(listen, "unix:"); ok {
		listening("unix:" + path)
	} else {
		listening(listener.Addr().String())
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	healthy.Shutdown() // callers go elsewhere first
	stopped := time.AfterFunc(grace, server.Stop)
	defer stopped.Stop()
	server.GracefulStop()
	return nil
}

// listenOn listens on a Unix socket, in place of one that an earlier run left behind, or on an address of this machine.
func listenOn(address string) (net.Listener, error) {
	path, unix := strings.CutPrefix(address, "unix:")
	if unix {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			if err := os.Remove(path); err != nil {
				return nil, err
			}
		}
		return net.Listen("unix", path)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("%s: must be unix:/path or a loopback address, because there is no TLS", address)
	}
	return net.Listen("tcp", address)
}
