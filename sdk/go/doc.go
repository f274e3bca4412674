// Also change: internal/trireme/sdk/__init__.py, sdk/rust/src/lib.rs, sdk/typescript/src/index.ts (the first example).

// Package trireme is for writing scheduler plugins in Go: a type with the methods of the steps that it takes part in.
//
//	type maintenance struct{}
//
//	func (maintenance) Name() string { return "Maintenance" }
//
//	func (maintenance) Filter(
//		_ context.Context, _ framework.CycleState, _ *v1.Pod, node framework.NodeInfo,
//	) *framework.Status {
//		if _, down := node.Labels()["example.com/maintenance"]; down {
//			return framework.NewStatus(framework.UnschedulableAndUnresolvable, "node(s) were under maintenance")
//		}
//		return nil
//	}
//
//	func main() {
//		trireme.Main(trireme.Definition{Plugin: maintenance{}, DependsOn: trireme.Node, NodeData: trireme.Messages})
//	}
//
// That is a complete plugin: `maintenance --listen 127.0.0.1:9000` serves it, with health and reflection. The interfaces
// are those of package framework, which mirrors k8s.io/kube-scheduler/framework.
//
// Whatever a method returns or panics with, the scheduler gets a message of the protocol or a gRPC error that names the
// plugin and the step; the process continues.
package trireme
