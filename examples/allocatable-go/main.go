// Command allocatable-go serves NodeResourcesAllocatable of sigs.k8s.io/scheduler-plugins as a service of its own.
//
//	allocatable-go --listen 127.0.0.1:9000
package main

import (
	"k8s.io/apimachinery/pkg/runtime"
	trireme "trireme.dev/sdk/go"

	"trireme.dev/examples/allocatable-go/config"
	"trireme.dev/examples/allocatable-go/noderesources"
)

func main() {
	trireme.Main(trireme.Definition{
		New: trireme.FromFramework(noderesources.NewAllocatable, func() runtime.Object {
			return &config.NodeResourcesAllocatableArgs{}
		}),
		Version: "1.0.0",
		// The score is made of the node's allocatable resources; that of the pods on it is not used.
		DependsOn: trireme.Node,
		NodeData:  trireme.Messages,
		PodFields: []string{"spec.containers.resources", "spec.initContainers.resources", "spec.overhead"},
	})
}
