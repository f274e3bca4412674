// Also change: internal/trireme/sdk/values.py (which names the other languages' files).
package dev.trireme.sdk;

/** What a plugin's result for a node depends on, and so how long the scheduler caches it. */
public enum Dependency {
  /** The node object alone: cached until the node changes. */
  NODE(dev.trireme.v1.Dependency.DEPENDENCY_NODE),
  /** Also the pods on the node: called again for nodes whose pods changed. */
  NODE_PODS(dev.trireme.v1.Dependency.DEPENDENCY_NODE_PODS),
  /** Anything: called every time, about one pod at a time. */
  CLUSTER(dev.trireme.v1.Dependency.DEPENDENCY_CLUSTER);

  final dev.trireme.v1.Dependency message;

  Dependency(dev.trireme.v1.Dependency message) {
    this.message = message;
  }
}
