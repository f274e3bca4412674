package trireme

import (
	"context"

	"google.golang.org/grpc/metadata"
)

const traceParent = "traceparent"

// TraceParent returns the W3C trace context of the caller, of the context that a method gets; empty: it does not trace.
//
// With OpenTelemetry a plugin's spans join the trace of the pod by
//
//	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": trireme.TraceParent(ctx)})
func TraceParent(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, traceParent); len(values) > 0 {
		return values[0]
	}
	return ""
}
