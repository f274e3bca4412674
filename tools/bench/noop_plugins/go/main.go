// Also change: tools/bench/noop_plugin.py, tools/bench/noop_plugins/java/src/main/java/dev/trireme/bench/Noop.java,
// tools/bench/noop_plugins/rust/src/main.rs, tools/bench/noop_plugins/typescript/src/noop.ts (the same plugin).

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

// scorer is what both plugins have.
type scorer struct{}

func (scorer) Name() string { return "Noop" }

func (scorer) Score(context.Context, framework.CycleState, *v1.Pod, framework.NodeInfo) (int64, *framework.Status) {
	return 50, nil
}

func (scorer) ScoreExtensions() framework.ScoreExtensions { return nil }

// byNode depends on the node alone.
type byNode struct{ scorer }

func (byNode) Filter(context.Context, framework.CycleState, *v1.Pod, framework.NodeInfo) *framework.Status {
	return nil
}

// byPods returns how many pods a node takes.
type byPods struct{ scorer }

func (byPods) FilterCapacity(
	context.Context, framework.CycleState, *v1.Pod, framework.NodeInfo, int,
) (int, *framework.Status) {
	return math.MaxInt32, nil
}

func main() {
	definition := trireme.Definition{Plugin: byNode{}, DependsOn: trireme.Node, PodFields: []string{"metadata.namespace"}}
	if os.Getenv("DEPENDS_ON") == "NODE_PODS" {
		// Copies of the pod change no score here: there is nothing to count.
		counts := true
		definition.Plugin, definition.DependsOn, definition.ScoreCopies = byPods{}, trireme.NodePods, &counts
	}
	trireme.Main(definition)
}
