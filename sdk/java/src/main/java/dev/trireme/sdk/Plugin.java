// Also change: internal/trireme/sdk/description.py (which names the other languages' files).
// Also change: internal/trireme/cli/plugin_development/taken_names.py (which names the types of Plugin).
package dev.trireme.sdk;

import com.google.gson.JsonElement;
import dev.trireme.v1.Action;
import dev.trireme.v1.ClusterObject;
import dev.trireme.v1.Disruption;
import dev.trireme.v1.NodeColumns;
import dev.trireme.v1.ObjectKey;
import dev.trireme.v1.Pod;
import dev.trireme.v1.PodIdentity;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;

/**
 * A plugin: implement the interface of each extension point that it takes part in, such as {@link Filter} and
 * {@link Score}. Methods are called by several threads at once, up to {@link Info#maxConcurrentCalls()}.
 *
 * <p>An exception becomes a gRPC error that names plugin and method, and the process goes on. A
 * {@link io.grpc.StatusRuntimeException} chooses the code.
 */
public interface Plugin {
  /** Its name, needs and limits; read again at each handshake, so that it may report another version. */
  Info info();

  /** How state becomes bytes. */
  default StateCodec stateCodec() {
    return StateCodec.JSON;
  }

  /** Takes arguments. */
  interface Configurable extends Plugin {
    /** Checks the profile's arguments; the result is the config of later calls. May throw InvalidArguments. */
    Object configure(Configuration configuration) throws Exception;
  }

  /** May keep pods out of the queue. */
  interface PreEnqueue extends Plugin {
    /** SUCCESS lets the pod into the queue, another status keeps it out. */
    Status preEnqueue(Pod pod, Context context) throws Exception;
  }

  /** Orders the queue: the pods of all profiles. */
  interface QueueSort extends Plugin {
    /**
     * The pod's position in the queue, of the pod and the configuration alone: it is called once, before the pod enters
     * the queue, and again only when a field of {@link Info#podFields}, the configuration, the version or the process
     * changes.
     */
    SortKey sortKey(Pod pod, Context context) throws Exception;
  }

  /**
   * A pod's position in the queue: numbers that are compared from the first on, and the least is tried first.
   *
   * @param level compared first: 1 to 16 numbers. Pods of one class with the same level may be scheduled in one batch, and
   *     classes of one level take turns; so levels that all differ keep every batch to one pod. The negated priority is
   *     the scheduler's own order.
   * @param rest the order of the pods of one class and level: at most 16 numbers. What is equal goes by age
   */
  record SortKey(List<Long> level, List<Long> rest) {
    /** A key of a level alone. */
    public static SortKey of(long... level) {
      return new SortKey(Arrays.stream(level).boxed().toList(), List.of());
    }

    /** The same with the order of the pods of one class and level. */
    public SortKey thenBy(long... numbers) {
      return new SortKey(level, Arrays.stream(numbers).boxed().toList());
    }
  }

  /** Decides which of the registered events may help a pod. */
  interface QueueingHint extends Plugin {
    /** Whether the change may help the pod, which this plugin refused. */
    boolean queueingHint(Pod pod, Change change, Context context) throws Exception;
  }

  /**
   * Whose call it is, of calls without a cycle.
   *
   * @param profile the profile (its schedulerName)
   * @param configured what configure returned for the profile; null if the plugin has none
   */
  record Context(String profile, Object configured) {
    /** What configure returned for the profile; null if the plugin has none. */
    public <T> T config(Class<T> type) {
      return type.cast(configured);
    }
  }

  /**
   * Something that happened in the cluster.
   *
   * @param resource as in the registered event
   * @param actions as in the registered event
   * @param oldObject the object before; null when it was added
   * @param newObject the object after; null when it was deleted
   */
  record Change(String resource, List<String> actions, JsonElement oldObject, JsonElement newObject) {}

  /** Answers about a pod whatever the node, before Filter. */
  interface PreFilter extends Plugin {
    /** SKIP leaves out filter. */
    PreFilterResult preFilter(Call call) throws Exception;
  }

  /**
   * The result of preFilter.
   *
   * @param status whether the pod passes
   * @param nodes narrows the nodes to these names; null: not
   * @param state handed to filter as {@link Call#state}, perhaps in another process; null: none
   */
  record PreFilterResult(Status status, List<String> nodes, Object state) {
    /** The pod passes. */
    public static PreFilterResult pass() {
      return new PreFilterResult(Status.SUCCESS, null, null);
    }

    /** The pod is refused, or skipped. */
    public static PreFilterResult of(Status status) {
      return new PreFilterResult(status, null, null);
    }

    /** The same, narrowed to these nodes. */
    public PreFilterResult onlyOn(List<String> names) {
      return new PreFilterResult(status, names, state);
    }

    /** The same with state. */
    public PreFilterResult withState(Object value) {
      return new PreFilterResult(status, nodes, value);
    }
  }

  /** Filters nodes. */
  interface Filter extends Plugin {
    /** Whether the pod may run on the node. Also answers preemption's dry runs. */
    Verdict filter(Call call, Node node) throws Exception;

    /** The same for many nodes at once; override it instead where that is cheaper. */
    default List<Verdict> filterNodes(Call call, List<Node> nodes) throws Exception {
      return Calls.forEachNode("filter", nodes, node -> filter(call, node));
    }
  }

  /** Makes room for a pod that no node passed for. */
  interface PostFilter extends Plugin {
    /** The actions that make room, or why nothing does. */
    PostFilterResult postFilter(Call call, NoFit noFit) throws Exception;
  }

  /**
   * Why no node passed.
   *
   * @param columns a status for each node by slot
   * @param preFilter preFilter's refusal, which then holds for all nodes; else without a code
   */
  record NoFit(NodeColumns columns, dev.trireme.v1.Status preFilter) {}

  /**
   * The result of postFilter.
   *
   * @param status SUCCESS: the actions make room
   * @param actions what the scheduler is to write, in order
   * @param nominatedNode the node that the pod is nominated to; empty: none
   * @param clearNomination whether the pod's nomination is to be cleared
   * @param disruption what it costs; null: not told
   */
  record PostFilterResult(
      Status status, List<Action> actions, String nominatedNode, boolean clearNomination, Disruption disruption) {
    /** Nothing helps. */
    public static PostFilterResult of(Status status) {
      return new PostFilterResult(status, List.of(), "", false, null);
    }

    /** These actions make room on the node. */
    public static PostFilterResult nominate(String node, List<Action> actions) {
      return new PostFilterResult(Status.SUCCESS, actions, node, false, null);
    }
  }

  /** Prepares scoring. */
  interface PreScore extends Plugin {
    /** SKIP leaves out score. */
    PreScoreResult preScore(Call call, List<Node> nodes) throws Exception;
  }

  /**
   * The result of preScore.
   *
   * @param status SUCCESS, SKIP or an error
   * @param state handed to score as {@link Call#state}; null: none
   */
  record PreScoreResult(Status status, Object state) {}

  /** Ranks the nodes that passed. */
  interface Score extends Plugin {
    /** A whole number. */
    long score(Call call, Node node) throws Exception;

    /** The same for many nodes at once; override it instead where that is cheaper. */
    default List<Long> scoreNodes(Call call, List<Node> nodes) throws Exception {
      return Calls.forEachNode("score", nodes, node -> score(call, node));
    }
  }

  /** Brings the scores of all nodes into 0 to 100 itself. */
  interface NormalizeScore extends Score {
    /** A score of 0 to 100 for each node, in their order. */
    List<Long> normalizeScores(Call call, List<Node> nodes, List<Long> scores) throws Exception;
  }

  /** Takes something for a pod, and gives it back. */
  interface Reserve extends Plugin {
    /** Takes what the pod needs on the node. */
    Reservation reserve(Call call, Placement placement) throws Exception;

    /** Gives it back. Also called for what is not reserved. */
    void unreserve(Call call, Placement placement) throws Exception;
  }

  /**
   * One pod on one node.
   *
   * @param pod the pod
   * @param nodeName the name of the node
   * @param slot the node's slot, with SNAPSHOT
   */
  record Placement(PodIdentity pod, String nodeName, int slot) {}

  /**
   * The result of reserve.
   *
   * @param status anything but SUCCESS cancels the placement
   * @param assumed objects as they will be once preBind has written them
   * @param state handed to preBind as {@link BindItem#state}; null: none
   */
  record Reservation(Status status, List<ClusterObject> assumed, Object state) {
    /** Reserved, or refused. */
    public static Reservation of(Status status) {
      return new Reservation(status, List.of(), null);
    }
  }

  /** Lets an assumed pod be bound, refuses it, or has it wait. */
  interface Permit extends Plugin {
    /** Whether the pod may be bound. */
    PermitResult permit(Call call, BindItem item) throws Exception;
  }

  /**
   * The result of permit.
   *
   * @param status SUCCESS, a refusal or an error; where the pod waits, the message of the wait
   * @param timeout how long the pod waits at most until it is rejected; null: it does not wait
   */
  record PermitResult(Status status, Duration timeout) {
    /** The pod may be bound, or not. */
    public static PermitResult of(Status status) {
      return new PermitResult(status, null);
    }

    /** The pod waits for {@link Handle#allow}. */
    public static PermitResult waiting(Duration timeout, String message) {
      return new PermitResult(Status.waiting(message), timeout);
    }
  }

  /** Does what must be done before a pod is bound. */
  interface PreBind extends Plugin {
    /** Whether preBind has work for the pod: SUCCESS it has, SKIP it has not. Writes nothing. */
    default Status preBindPreFlight(Call call, BindItem item) throws Exception {
      return Status.SUCCESS;
    }

    /** Does the work, or names the objects that it waits for: it is called again when one of them changes. */
    PreBindResult preBind(Call call, BindItem item) throws Exception;
  }

  /**
   * The result of preBind.
   *
   * @param status SUCCESS: done; SKIP: nothing to do; while it waits, the message of the wait
   * @param waitFor the objects that it waits for; empty: it does not wait
   * @param timeout how long it waits at most; null: it does not wait
   * @param state given to the next preBind as {@link BindItem#state}; null: none
   */
  record PreBindResult(Status status, List<ObjectKey> waitFor, Duration timeout, Object state) {
    /** Done, skipped, or refused. */
    public static PreBindResult of(Status status) {
      return new PreBindResult(status, List.of(), null, null);
    }

    /** Waits for one of the objects to change. */
    public static PreBindResult waiting(List<ObjectKey> objects, Duration timeout, String message) {
      return new PreBindResult(Status.waiting(message), objects, timeout, null);
    }
  }

  /** Binds pods. */
  interface Bind extends Plugin {
    /** SUCCESS: the pod is bound; SKIP: left to the next binder. */
    Status bind(Call call, BindItem item) throws Exception;
  }

  /** Is notified that pods were bound. */
  interface PostBind extends Plugin {
    /** The pod was bound. */
    void postBind(Call call, BindItem item) throws Exception;
  }

  /** Decides whether a group of pods may fit in a placement. */
  interface PlacementFeasible extends Plugin {
    /**
     * Called before the first pod of the group (the first group of a group of groups) is tried in the placement, and after
     * each. SUCCESS: it fits, and later calls answer so too. {@link Status#moreMembers}: it does if more of it fits.
     * {@link Status#unschedulable}: it will not, and the trial ends. The call's pod is empty: the pods of a group may differ.
     */
    Status placementFeasible(Call call, PlacementTrial trial) throws Exception;
  }
}
