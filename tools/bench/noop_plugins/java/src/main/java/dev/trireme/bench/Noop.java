// Also change: tools/bench/noop_plugin.py, tools/bench/noop_plugins/go/main.go,
// tools/bench/noop_plugins/rust/src/main.rs, tools/bench/noop_plugins/typescript/src/noop.ts (the same plugin).
package dev.trireme.bench;

import dev.trireme.sdk.Call;
import dev.trireme.sdk.Dependency;
import dev.trireme.sdk.Info;
import dev.trireme.sdk.Node;
import dev.trireme.sdk.Plugin;
import dev.trireme.sdk.PluginMain;
import dev.trireme.sdk.Verdict;

/**
 * A plugin that lets every node pass and scores all alike: what calling a plugin costs, without its own work. DEPENDS_ON
 * says what it declares, NODE or NODE_PODS.
 */
public final class Noop implements Plugin.Filter, Plugin.Score {
  private static final Info INFO = Info.of("Noop")
      .dependingOn("NODE_PODS".equals(System.getenv("DEPENDS_ON")) ? Dependency.NODE_PODS : Dependency.NODE)
      .withPodFields("metadata.namespace")
      .withScoreCopies(true);

  @Override
  public Info info() {
    return INFO;
  }

  @Override
  public Verdict filter(Call call, Node node) {
    return Verdict.PASS;
  }

  @Override
  public long score(Call call, Node node) {
    return 50;
  }

  /** Serves the plugin. */
  public static void main(String[] args) {
    PluginMain.run(new Noop(), args);
  }
}
