// Also change: examples/plugin-python/pod_limit.py, examples/plugin-go/podlimit/main.go,
// examples/plugin-typescript/src/pod_limit.ts (the same plugin).
package dev.trireme.examples;

import dev.trireme.sdk.Call;
import dev.trireme.sdk.Dependency;
import dev.trireme.sdk.Event;
import dev.trireme.sdk.Info;
import dev.trireme.sdk.Node;
import dev.trireme.sdk.NodeData;
import dev.trireme.sdk.Plugin;
import dev.trireme.sdk.PluginMain;
import dev.trireme.sdk.Status;
import dev.trireme.sdk.Verdict;

/**
 * The scheduler plugin PodLimit: nodes with the label {@code example.com/pod-limit} take only so many pods, and
 * those with room are preferred. How many pods a node has is not part of the node, so this plugin follows the cluster.
 */
public final class PodLimit implements Plugin.Filter, Plugin.Score {
  /** How many pods the node takes. */
  static final String LIMIT = "example.com/pod-limit";

  private static final Info INFO = Info.of("PodLimit")
      .withVersion("1.1.0")
      .dependingOn(Dependency.NODE_PODS) // called again about a node whose pods have changed
      .withNodeData(NodeData.SNAPSHOT)
      .withPodFields("metadata.namespace")
      .withEvents(Event.of("Node", "Add", "UpdateNodeLabel"), Event.of("AssignedPod", "Delete"));

  @Override
  public Info info() {
    return INFO;
  }

  /** As many copies of the pod as the limit leaves room for. */
  @Override
  public Verdict filter(Call call, Node node) {
    String limit = node.labels().getOrDefault(LIMIT, "");
    if (!limit.matches("[0-9]{1,9}")) {
      return Verdict.PASS;
    }
    // In a dry run of preemption pods are taken to be gone, or there.
    int count = node.pods().size() - call.removedPods().size() + call.addedPods().size();
    int room = Integer.parseInt(limit) - count;
    return room > 0 ? Verdict.capacity(room) : Status.unschedulable("node(s) had as many pods as they may");
  }

  /** How much of the limit is left, in percent; also with pods of a batch on the node that are not there yet. */
  @Override
  public long score(Call call, Node node) {
    String limit = node.labels().getOrDefault(LIMIT, "");
    if (!limit.matches("[0-9]{1,9}")) {
      return 100;
    }
    long room = Math.max(Long.parseLong(limit) - node.pods().size(), 0);
    return room * 100 / Math.max(Long.parseLong(limit), 1);
  }

  /** Serves the plugin. */
  public static void main(String[] args) {
    PluginMain.run(new PodLimit(), args);
  }
}
