// Also change: internal/trireme/sdk/plugin_server.py (which names the other languages' files).

package trireme

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

// A message to or from a plugin is at most so long.
const maxMessageBytes = 16 << 20

// Grace without a value.
const grace = 10 * time.Second

// Options is how a plugin is served.
type Options struct {
	// Listen is `host:port` or `unix:/path`; empty: a free port of 127.0.0.1.
	Listen string
	// TLS of the server, and of the requests to the scheduler. Unix sockets are plain.
	TLS TLSFiles
	// Scheduler is the frontend's address, for the requests of Handle; empty: there are none.
	Scheduler string
	// MetricsListen is `host:port` for metrics in Prometheus' text format at /metrics; empty: none.
	MetricsListen string
	// Grace is how long calls under way may take after the context has ended; 0: ten seconds.
	Grace time.Duration
	// Listening is called with the address once it is served.
	Listening func(address string)
}

func logger() *slog.Logger {
	return slog.Default()
}

// Serve serves the plugin until the context ends. Calls under way are finished, for Options.Grace at most.
func Serve(ctx context.Context, definition Definition, options Options) error {
	if err := options.TLS.check(); err != nil {
		return err
	}
	certificates := &certificates{files: options.TLS}
	connection, err := dial(options, certificates)
	if err != nil {
		return fmt.Errorf("--scheduler: %w", err)
	}
	if connection != nil {
		defer connection.close()
	}
	service, err := newService(ctx, definition, newScheduler(ctx, connection))
	if err != nil {
		return err
	}
	listener, err := listenOn(options.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	credentials, err := certificates.serverOptions(listener.Addr().Network())
	if err != nil {
		return err
	}
	metrics := newMetrics(service.name)
	stopMetrics, err := metrics.serve(options.MetricsListen)
	if err != nil {
		return fmt.Errorf("--metrics-listen: %w", err)
	}
	defer stopMetrics()
	server, healthy := service.newServer(metrics, options.TLS.AllowedIdentities, credentials...)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if options.Listening != nil {
		options.Listening(describeAddress(listener.Addr()))
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// Callers go elsewhere first; what is under way may finish.
	healthy.Shutdown()
	stopped := make(chan struct{})
	go func() {
		server.GracefulStop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-time.After(cmp.Or(options.Grace, grace)):
		// Stop waits for methods: one that hangs must not keep the process.
		go server.Stop()
	}
	return nil
}

// newServer makes a server with the plugin's services, health and reflection.
func (s *service) newServer(
	metrics *metrics, identities []string, options ...grpc.ServerOption,
) (*grpc.Server, *health.Server) {
	options = append(options,
		grpc.MaxRecvMsgSize(maxMessageBytes), grpc.MaxSendMsgSize(maxMessageBytes),
		grpc.ChainUnaryInterceptor(metrics.unary, allowUnary(identities), s.recoverUnary),
		grpc.ChainStreamInterceptor(metrics.stream, allowStream(identities), s.recoverStream),
	)
	server := grpc.NewServer(options...)
	triremev1.RegisterPluginServiceServer(server, handshake{service: s})
	s.register(server)
	healthy := health.NewServer()
	for name := range server.GetServiceInfo() {
		healthy.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	healthpb.RegisterHealthServer(server, healthy)
	reflection.Register(server)
	return server, healthy
}

// register adds the services of the plugin's extension points.
func (s *service) register(server *grpc.Server) {
	needed := map[string]bool{}
	for _, point := range s.info.GetPlugins()[0].GetExtensionPoints() {
		needed[serviceOf[point]] = true
	}
	for _, event := range s.info.GetPlugins()[0].GetEventsToRegister() {
		needed["queue"] = needed["queue"] || event.GetHint()
	}
	if needed["queue"] {
		triremev1.RegisterQueueServiceServer(server, queueServer{service: s})
	}
	if needed["filter"] {
		triremev1.RegisterFilterPluginServer(server, filterServer{service: s})
	}
	if needed["score"] {
		triremev1.RegisterScorePluginServer(server, scoreServer{service: s})
	}
	if needed["bind"] {
		triremev1.RegisterBindPluginServer(server, bindServer{service: s})
	}
	if needed["pod group"] {
		triremev1.RegisterPodGroupPluginServer(server, podGroupServer{service: s})
	}
	if s.follower != nil {
		triremev1.RegisterSnapshotFollowerServer(server, s.follower)
	}
}

var serviceOf = map[triremev1.ExtensionPoint]string{
	triremev1.ExtensionPoint_EXTENSION_POINT_PRE_ENQUEUE:     "queue",
	triremev1.ExtensionPoint_EXTENSION_POINT_QUEUE_SORT:      "queue",
	triremev1.ExtensionPoint_EXTENSION_POINT_PRE_FILTER:      "filter",
	triremev1.ExtensionPoint_EXTENSION_POINT_FILTER:          "filter",
	triremev1.ExtensionPoint_EXTENSION_POINT_POST_FILTER:     "filter",
	triremev1.ExtensionPoint_EXTENSION_POINT_RESERVE:         "filter",
	triremev1.ExtensionPoint_EXTENSION_POINT_PRE_SCORE:       "score",
	triremev1.ExtensionPoint_EXTENSION_POINT_SCORE:           "score",
	triremev1.ExtensionPoint_EXTENSION_POINT_NORMALIZE_SCORE: "score",
	triremev1.ExtensionPoint_EXTENSION_POINT_PERMIT:          "bind",
	triremev1.ExtensionPoint_EXTENSION_POINT_PRE_BIND:        "bind",
	triremev1.ExtensionPoint_EXTENSION_POINT_BIND:            "bind",
	triremev1.ExtensionPoint_EXTENSION_POINT_POST_BIND:       "bind",

	triremev1.ExtensionPoint_EXTENSION_POINT_PLACEMENT_FEASIBLE: "pod group",
}

// handshake serves PluginService.
type handshake struct {
	triremev1.UnimplementedPluginServiceServer
	*service
}

// GetPluginInfo returns the plugin's description; it is refused where the caller lacks a feature that the plugin requires.
func (h handshake) GetPluginInfo(
	_ context.Context, request *triremev1.GetPluginInfoRequest,
) (*triremev1.GetPluginInfoResponse, error) {
	var missing []string
	for _, feature := range h.definition.RequiredFeatures {
		if !slices.Contains(request.GetFeatures(), feature) {
			missing = append(missing, feature)
		}
	}
	if len(missing) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition,
			"required_features: the caller does not know %s; update the scheduler", strings.Join(missing, ", "))
	}
	return known(h.info, request.GetFeatures()), nil
}

// Configure makes the plugin for a profile's arguments.
func (h handshake) Configure(
	_ context.Context, request *triremev1.ConfigureRequest,
) (*triremev1.ConfigureResponse, error) {
	if h.definition.New == nil {
		return nil, status.Errorf(codes.Unimplemented, "plugin %s takes no arguments", h.name)
	}
	if err := h.configure(request); err != nil {
		return &triremev1.ConfigureResponse{Errors: fieldErrors(err)}, nil
	}
	return &triremev1.ConfigureResponse{}, nil
}

// recoverUnary bounds concurrent calls, and makes a panic of the plugin a gRPC error.
func (s *service) recoverUnary(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (response any, err error) {
	done, err := s.turn(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	defer done()
	defer s.recovered(info.FullMethod, &err)
	return handle(ctx, request)
}

func (s *service) recoverStream(
	server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler,
) (err error) {
	done, err := s.turn(stream.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	defer done()
	defer s.recovered(info.FullMethod, &err)
	return handle(server, stream)
}

// turn waits for one of the plugin's concurrent calls; the handshake, health and the stream need none.
func (s *service) turn(ctx context.Context, method string) (func(), error) {
	free := s.turns == nil || strings.HasPrefix(method, "/grpc.") ||
		strings.HasPrefix(method, "/trireme.v1.PluginService/") || strings.HasPrefix(method, "/trireme.v1.SnapshotFollower/")
	if free {
		return func() {}, nil
	}
	select {
	case s.turns <- struct{}{}:
		if err := ctx.Err(); err != nil {
			<-s.turns
			return nil, status.FromContextError(err).Err()
		}
		return func() { <-s.turns }, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

func (s *service) recovered(method string, err *error) {
	if cause := recover(); cause != nil {
		step := method[strings.LastIndexByte(method, '/')+1:]
		logger().Error("a method panicked", "plugin", s.name, "step", step, "cause", fmt.Sprint(cause), "stack", stack())
		*err = s.failed(step, fmt.Errorf("panic: %v", cause))
	}
}

func listenOn(address string) (net.Listener, error) {
	if address == "" {
		address = "127.0.0.1:0"
	}
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

func describeAddress(address net.Addr) string {
	if address.Network() == "unix" {
		return "unix:" + address.String()
	}
	return address.String()
}

// serve serves the metrics, and returns what ends that.
func (m *metrics) serve(address string) (func(), error) {
	if address == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.gatherers, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: grace}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger().Error("metrics are not served any more", "error", err)
		}
	}()
	logger().Info("metrics are served", "address", listener.Addr().String())
	return func() { _ = server.Close() }, nil
}

var _ framework.Handle = (*handle)(nil)
