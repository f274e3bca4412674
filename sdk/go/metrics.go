// Also change: internal/trireme/sdk/metrics.py (which names the other languages' files).

package trireme

import (
	"context"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// metrics counts the calls of the scheduler. What a plugin registers with prometheus.DefaultRegisterer is served too.
type metrics struct {
	durations *prometheus.HistogramVec
	gatherers prometheus.Gatherers
}

func newMetrics(plugin string) *metrics {
	registry := prometheus.NewRegistry()
	out := &metrics{
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:        "trireme_plugin_call_duration_seconds",
			Help:        "Duration of the scheduler's calls, by RPC and gRPC code.",
			ConstLabels: prometheus.Labels{"plugin": plugin},
			Buckets:     prometheus.ExponentialBuckets(0.0001, 2, 16),
		}, []string{"rpc", "code"}),
		gatherers: prometheus.Gatherers{registry, prometheus.DefaultGatherer},
	}
	registry.MustRegister(out.durations)
	return out
}

func (m *metrics) observe(method string, began time.Time, err error) {
	if strings.HasPrefix(method, "/trireme.") {
		rpc := method[strings.LastIndexByte(method, '/')+1:]
		m.durations.WithLabelValues(rpc, status.Code(err).String()).Observe(time.Since(began).Seconds())
	}
}

func (m *metrics) unary(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	began := time.Now()
	response, err := handle(ctx, request)
	m.observe(info.FullMethod, began, err)
	return response, err
}

func (m *metrics) stream(
	server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler,
) error {
	began := time.Now()
	err := handle(server, stream)
	m.observe(info.FullMethod, began, err)
	return err
}

func stack() string {
	return string(debug.Stack())
}
