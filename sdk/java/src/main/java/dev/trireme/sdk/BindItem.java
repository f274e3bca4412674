// Also change: internal/trireme/sdk/binding.py (which names the other languages' files).
package dev.trireme.sdk;

import dev.trireme.v1.ClusterObject;
import dev.trireme.v1.PodIdentity;
import java.util.List;

/** A pod about to be bound. */
public final class BindItem {
  private final dev.trireme.v1.BindItem message;
  private final StateCodec codec;

  BindItem(dev.trireme.v1.BindItem message, StateCodec codec) {
    this.message = message;
    this.codec = codec;
  }

  /** The pod. */
  public PodIdentity pod() {
    return message.getPod();
  }

  /** The name of the node. */
  public String nodeName() {
    return message.getNodeName();
  }

  /** Objects that reserve assumed for it. */
  public List<ClusterObject> assumed() {
    return message.getAssumedList();
  }

  /** What reserve or an earlier preBind returned; null if nothing. */
  public <T> T state(Class<T> type) {
    return message.getState().isEmpty() ? null : codec.decode(message.getState(), type);
  }

  /** The scheduler does not know how an earlier call ended: the pod may be bound already. */
  public boolean outcomeUnknown() {
    return message.getOutcomeUnknown();
  }
}
