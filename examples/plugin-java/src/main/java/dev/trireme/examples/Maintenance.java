// Also change: examples/plugin-python/maintenance.py, examples/plugin-go/maintenance.go,
// examples/plugin-typescript/src/maintenance.ts (the same plugin).
package dev.trireme.examples;

import dev.trireme.sdk.Arguments;
import dev.trireme.sdk.Call;
import dev.trireme.sdk.Configuration;
import dev.trireme.sdk.Dependency;
import dev.trireme.sdk.Event;
import dev.trireme.sdk.Info;
import dev.trireme.sdk.Node;
import dev.trireme.sdk.NodeData;
import dev.trireme.sdk.Plugin;
import dev.trireme.sdk.PluginMain;
import dev.trireme.sdk.Status;
import dev.trireme.sdk.Verdict;
import java.util.regex.Pattern;

/**
 * The scheduler plugin Maintenance: keeps pods off nodes under maintenance, and prefers nodes that are wanted. Its
 * answers depend on the node alone, so it is called once for each node and class of pods.
 */
public final class Maintenance implements Plugin.Configurable, Plugin.Filter, Plugin.Score {
  /** A node with this label, whatever its value, gets no new pods. A profile's args may name another one. */
  static final String MAINTENANCE = "example.com/maintenance";
  /** How much a node is wanted: a whole number from 0 to 100. Without it: 0. */
  static final String PREFERENCE = "example.com/preference";

  /** A label's key. */
  private static final Pattern KEY =
      Pattern.compile("([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?");
  private static final Pattern WHOLE_NUMBER = Pattern.compile("-?[0-9]{1,9}");

  private static final Info INFO = Info.of("Maintenance")
      .withVersion("1.0.0")
      .dependingOn(Dependency.NODE)
      .withNodeData(NodeData.MESSAGES)
      // Nothing else of the pod matters, so nothing else is sent.
      .withPodFields("metadata.namespace")
      // These changes may help a pod that was refused.
      .withEvents(Event.of("Node", "Add", "UpdateNodeLabel"));

  @Override
  public Info info() {
    return INFO;
  }

  /** The label of nodes under maintenance: {@code maintenanceLabel} of the profile's args. */
  @Override
  public String configure(Configuration configuration) {
    Arguments args = new Arguments(configuration.args());
    String label = args.string("maintenanceLabel", MAINTENANCE,
        value -> KEY.matcher(value).matches() ? null : "must be the key of a label");
    args.finish();
    return label;
  }

  /** Refuses the nodes under maintenance. Evicting pods from them would not help. */
  @Override
  public Verdict filter(Call call, Node node) {
    String label = call.config(String.class);
    if (!node.labels().containsKey(label)) {
      return Verdict.PASS;
    }
    return Status.unresolvable("node(s) were under maintenance").because("underMaintenance", "label", label);
  }

  /** The node's preference. */
  @Override
  public long score(Call call, Node node) {
    String preference = node.labels().getOrDefault(PREFERENCE, "");
    return WHOLE_NUMBER.matcher(preference).matches()
        ? Math.min(Math.max(Long.parseLong(preference), 0), 100) : 0;
  }

  /** Serves the plugin. */
  public static void main(String[] args) {
    PluginMain.run(new Maintenance(), args);
  }
}
