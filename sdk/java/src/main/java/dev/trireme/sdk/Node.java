// Also change: internal/trireme/sdk/calls.py (which names the other languages' files).
package dev.trireme.sdk;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.ByteString;
import java.util.Collection;
import java.util.List;
import java.util.Map;

/**
 * One node, filled as the plugin's node data requests.
 *
 * @param name its name
 * @param message the node, with MESSAGES and SNAPSHOT; else empty
 * @param rawJson the object as the API server sent it, with JSON
 * @param pods the pods on it, with SNAPSHOT
 */
public record Node(
    String name, dev.trireme.v1.Node message, ByteString rawJson, Collection<PlacedPod> pods) {

  static Node of(dev.trireme.v1.NodeView view) {
    return new Node(view.getName(), view.getNode(), view.getJson(), List.of());
  }

  static Node at(int slot, ClusterState cluster) {
    dev.trireme.v1.Node message =
        cluster.nodes().getOrDefault(slot, dev.trireme.v1.Node.getDefaultInstance());
    return new Node(message.getMetadata().getName(), message, ByteString.EMPTY, cluster.podsOn(slot));
  }

  /** Its labels; with MESSAGES and SNAPSHOT. */
  public Map<String, String> labels() {
    return message.getMetadata().getLabelsMap();
  }

  /** Its annotations; with MESSAGES and SNAPSHOT. */
  public Map<String, String> annotations() {
    return message.getMetadata().getAnnotationsMap();
  }

  /** The object as the API server sent it, decoded; with JSON. */
  public JsonObject json() {
    return JsonParser.parseString(rawJson.toStringUtf8()).getAsJsonObject();
  }
}
