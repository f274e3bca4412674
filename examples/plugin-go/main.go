// Command plugin-go serves the scheduler plugin Maintenance: a filter and a score plugin for Trireme, written against
// the .proto files alone.
//
//	plugin-go --listen 127.0.0.1:9000
//	plugin-go --listen unix:/run/maintenance.sock
package main

import (
	"context"
	"flag"
	"fmt"
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

	"trireme.dev/examples/plugin-go/triremev1"
)

// A call about two thousand nodes with all their labels stays below this.
const maxMessageBytes = 16 << 20

// How long calls under way may take after SIGTERM.
const grace = 10 * time.Second

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
	listener, err := listenOn(listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()

	server, healthy := newServer()
	go func() {
		<-ctx.Done()
		// Callers go elsewhere first; what is under way may finish.
		healthy.Shutdown()
		timer := time.AfterFunc(grace, server.Stop)
		defer timer.Stop()
		server.GracefulStop()
	}()
	fmt.Printf("listening on %s\n", describe(listener.Addr()))
	return server.Serve(listener)
}

// newServer makes a server with the plugin, health and reflection.
func newServer() (*grpc.Server, *health.Server) {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessageBytes), grpc.UnaryInterceptor(newFence().intercept))
	plugin := newMaintenance()
	triremev1.RegisterPluginServiceServer(server, plugin)
	triremev1.RegisterFilterPluginServer(server, plugin)
	triremev1.RegisterScorePluginServer(server, plugin)
	healthy := health.NewServer()
	for name := range server.GetServiceInfo() {
		healthy.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	healthpb.RegisterHealthServer(server, healthy)
	reflection.Register(server)
	return server, healthy
}

func listenOn(address string) (net.Listener, error) {
	path, unix := strings.CutPrefix(address, "unix:")
	if !unix {
		return net.Listen("tcp", address)
	}
	// A socket that an earlier run left behind when it was killed; anything else of that name stays.
	if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	return net.Listen("unix", path)
}

func describe(address net.Addr) string {
	if address.Network() == "unix" {
		return "unix:" + address.String()
	}
	return address.String()
}
