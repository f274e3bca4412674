// Also change: internal/trireme/sdk/invoker.py (which names the other languages' files).
package dev.trireme.sdk;

import java.util.ArrayList;
import java.util.List;

/** Calls an author's method for each node. */
final class Calls {
  private Calls() {}

  /** A method about one node. */
  interface Step<T> {
    T call(Node node) throws Exception;
  }

  /** An exception of a method, with the node that it was about. */
  static final class NodeFailure extends Exception {
    private static final long serialVersionUID = 1L;
    final String node;

    NodeFailure(String method, String node, Throwable cause) {
      super(method, cause);
      this.node = node;
    }
  }

  static <T> List<T> forEachNode(String method, List<Node> nodes, Step<T> step) throws NodeFailure {
    List<T> results = new ArrayList<>(nodes.size());
    for (Node node : nodes) {
      try {
        results.add(step.call(node));
      } catch (Exception | LinkageError | StackOverflowError | AssertionError error) {
        throw new NodeFailure(method, node.name(), error);
      }
    }
    return results;
  }
}
