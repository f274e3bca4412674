package trireme

import (
	"context"
	"testing"

	"google.golang.org/grpc/metadata"
	v1 "k8s.io/api/core/v1"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

// traced refuses every node with the trace of its caller.
type traced struct{ base }

func (traced) Filter(ctx context.Context, _ framework.CycleState, _ *v1.Pod, _ framework.NodeInfo) *framework.Status {
	return framework.NewStatus(framework.Unschedulable, "trace "+TraceParent(ctx))
}

// Spans of a plugin would be traces of their own.
func TestAMethodGetsTheTraceOfItsCaller(t *testing.T) {
	client := triremev1.NewFilterPluginClient(served(t, Definition{Plugin: traced{}}, Options{}))
	const header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, sent := range []string{"", header} {
		ctx := context.Background()
		if sent != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", sent)
		}
		response, err := client.Filter(ctx, request("a"))
		if err != nil || response.GetColumns().GetStatuses()[0].GetMessages()[0] != "trace "+sent {
			t.Errorf("Filter: %v, %v", response, err)
		}
	}
}
