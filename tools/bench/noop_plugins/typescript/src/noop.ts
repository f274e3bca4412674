// Also change: tools/bench/noop_plugin.py, tools/bench/noop_plugins/go/main.go,
// tools/bench/noop_plugins/java/src/main/java/dev/trireme/bench/Noop.java,
// tools/bench/noop_plugins/rust/src/main.rs (the same plugin).

/**
 * Serves a plugin that lets every node pass and scores all alike: what calling a plugin costs, without its own work.
 * DEPENDS_ON says what it declares, NODE or NODE_PODS.
 */
import { Dependency, type Info, type Plugin, type Verdict, main } from "@trireme/plugin-sdk";

class Noop implements Plugin<undefined> {
  readonly info: Info = {
    name: "Noop",
    dependsOn: process.env["DEPENDS_ON"] === "NODE_PODS" ? Dependency.NODE_PODS : Dependency.NODE,
    podFields: ["metadata.namespace"],
    scoreCopies: true,
  };

  filter(): Verdict {
    return undefined;
  }

  score(): number {
    return 50;
  }
}

await main("Noop", new Noop());
