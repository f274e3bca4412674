// Also change: internal/trireme/sdk/values.py (which names the other languages' files).
package dev.trireme.sdk;

/** The form in which the plugin gets nodes. */
public enum NodeData {
  /** {@link Node#name()} alone: the cheapest. */
  NAMES(dev.trireme.v1.NodeData.NODE_DATA_NAMES),
  /** Also {@link Node#message()}, and with it labels and annotations. */
  MESSAGES(dev.trireme.v1.NodeData.NODE_DATA_MESSAGES),
  /** Also {@link Node#json()}, the object as the API server sent it. */
  JSON(dev.trireme.v1.NodeData.NODE_DATA_JSON),
  /** Also {@link Node#message()} and {@link Node#pods()}: the plugin follows the whole cluster. */
  SNAPSHOT(dev.trireme.v1.NodeData.NODE_DATA_SNAPSHOT);

  final dev.trireme.v1.NodeData message;

  NodeData(dev.trireme.v1.NodeData message) {
    this.message = message;
  }
}
