// Also change: internal/trireme/sdk/results.py (which names the other languages' files).
package dev.trireme.sdk;

import dev.trireme.v1.Code;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * One answer about a pod, or a pod on a node. The SDK adds the plugin's name.
 *
 * @param code what happens next
 * @param messages they are counted per node and joined into the pod's event
 * @param reasons the same as data, for {@code trireme explain}
 */
public record Status(Code code, List<String> messages, List<Reason> reasons) implements Verdict {
  /** The pod passes. */
  public static final Status SUCCESS = new Status(Code.CODE_SUCCESS, List.of(), List.of());

  /** Nothing to do for the pod: the plugin's next step is left out. Of preFilter, preScore, preBind and bind. */
  public static final Status SKIP = new Status(Code.CODE_SKIP, List.of(), List.of());

  /**
   * A reason as data.
   *
   * @param code a stable name in lower camel case
   * @param parameters what the code is about
   */
  public record Reason(String code, Map<String, String> parameters) {}

  /** Refused now; evicting pods may help. */
  public static Status unschedulable(String message) {
    return new Status(Code.CODE_UNSCHEDULABLE, List.of(message), List.of());
  }

  /** Refused, and evicting pods would not help: preemption skips the node. */
  public static Status unresolvable(String message) {
    return new Status(Code.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE, List.of(message), List.of());
  }

  /** Refused until something outside the scheduler has happened; the event that helps skips the back-off. */
  public static Status pending(String message) {
    return new Status(Code.CODE_PENDING, List.of(message), List.of());
  }

  /** Of placementFeasible: the group fits if more of it does; if no more does, it is unschedulable. */
  public static Status moreMembers(String message) {
    return new Status(Code.CODE_WAIT, List.of(message), List.of());
  }

  /** The plugin could not decide: the pod is tried again after a back-off. */
  public static Status failed(String message) {
    return new Status(Code.CODE_ERROR, List.of(message), List.of());
  }

  static Status waiting(String message) {
    return new Status(Code.CODE_WAIT, message.isEmpty() ? List.of() : List.of(message), List.of());
  }

  /** The same with a reason as data: a code, then names and values of parameters in turn. */
  public Status because(String reason, Object... parameters) {
    if (parameters.length % 2 != 0) {
      throw new IllegalArgumentException("parameters are names and values in turn");
    }
    Map<String, String> named = new TreeMap<>();
    for (int at = 0; at < parameters.length; at += 2) {
      named.put(String.valueOf(parameters[at]), String.valueOf(parameters[at + 1]));
    }
    return new Status(code, messages, List.of(new Reason(reason, named)));
  }

  /** All messages as one text, as events show it. */
  public String message() {
    return String.join(", ", messages);
  }

  /** The message of the contract, in the plugin's name. */
  dev.trireme.v1.Status toMessage(String plugin) {
    dev.trireme.v1.Status.Builder out = dev.trireme.v1.Status.newBuilder().setCode(code);
    if (code != Code.CODE_SUCCESS && code != Code.CODE_SKIP) {
      out.setPlugin(plugin);
    }
    out.addAllMessages(messages);
    for (Reason reason : reasons) {
      out.addReasonsBuilder().setCode(reason.code()).putAllParameters(reason.parameters());
    }
    return out.build();
  }
}
