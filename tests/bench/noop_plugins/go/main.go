// Command go serves a plugin that lets every node pass and scores all alike: what calling a plugin costs, without its own
// work. DEPENDS_ON says what it declares, NODE or NODE_PODS.
package main

import (
	"context"
	"math"
	"os"

	v1 "k8s.io/api/core/v1"
	trireme "trireme.dev/sdk/go"
	"trireme.dev/sdk/go/framework"
)

type noop struct{}

func (noop) Name() string { return "Noop" }

func (noop) FilterCapacity(
	context.Context, framework.CycleState, *v1.Pod, framework.NodeInfo, int,
) (int, *framework.Status) {
	return math.MaxInt32, nil
}

func (noop) Score(context.Context, framework.CycleState, *v1.Pod, framework.NodeInfo) (int64, *framework.Status) {
	return 50, nil
}

func (noop) ScoreExtensions() framework.ScoreExtensions { return nil }

func main() {
	dependsOn := trireme.Node
	var scoreCopies *bool
	if os.Getenv("DEPENDS_ON") == "NODE_PODS" {
		dependsOn = trireme.NodePods
		// Copies of the pod change no score here: there is nothing to count.
		counts := true
		scoreCopies = &counts
	}
	trireme.Main(trireme.Definition{
		Plugin:      noop{},
		DependsOn:   dependsOn,
		PodFields:   []string{"metadata.namespace"},
		ScoreCopies: scoreCopies,
	})
}
