// Also change: internal/trireme/sdk/description.py (which names the other languages' files).
package dev.trireme.sdk;

import java.util.List;

/**
 * A kind of change that may help a pod that the plugin refused, in the framework's words.
 *
 * @param resource Node, Pod, AssignedPod, storage.k8s.io/CSINode, …
 * @param actions Add, Delete, Update, UpdateNodeLabel, …
 */
public record Event(String resource, List<String> actions) {
  /** Makes one, as in {@code Event.of("Node", "Add", "UpdateNodeLabel")}. */
  public static Event of(String resource, String... actions) {
    return new Event(resource, List.of(actions));
  }
}
