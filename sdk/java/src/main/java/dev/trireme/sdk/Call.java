// Also change: internal/trireme/sdk/calls.py (which names the other languages' files).
package dev.trireme.sdk;

import dev.trireme.v1.Pod;
import java.util.List;
import java.util.function.Supplier;

/**
 * One call about one class of pods. Long work checks {@link #isCancelled()}: it turns true when the caller gives up or
 * its deadline is over.
 */
public final class Call {
  private final Pod pod;
  private final String profile;
  private final int count;
  private final Object config;
  private final StateReader state;
  private final List<Pod> removedPods;
  private final List<Pod> addedPods;
  private final ClusterState cluster;
  private final io.grpc.Context context;
  /** Whether the plugin has got the cluster. */
  private volatile boolean clusterUsed;

  /** Decodes the state as a type. */
  interface StateReader {
    <T> T read(Class<T> type);
  }

  Call(
      Pod pod,
      String profile,
      int count,
      Object config,
      StateReader state,
      List<Pod> removedPods,
      List<Pod> addedPods,
      ClusterState cluster,
      io.grpc.Context context) {
    this.pod = pod;
    this.profile = profile;
    this.count = count;
    this.config = config;
    this.state = state;
    this.removedPods = removedPods;
    this.addedPods = addedPods;
    this.cluster = cluster;
    this.context = context;
  }

  /** What the pods of the class share: the fields that the plugin's pod fields name. */
  public Pod pod() {
    return pod;
  }

  /** The profile (its schedulerName). */
  public String profile() {
    return profile;
  }

  /** How many pods of the class are pending: a filter need not count copies beyond it. */
  public int count() {
    return count;
  }

  /** What configure returned for the profile; null if the plugin has none. */
  public <T> T config(Class<T> type) {
    return type.cast(config);
  }

  /** What preFilter or preScore returned earlier in the cycle; null if nothing. */
  public <T> T state(Class<T> type) {
    return state.read(type);
  }

  /** In a dry run of preemption: pods to treat as gone from the node. {@link Node#pods()} is unchanged. */
  public List<Pod> removedPods() {
    return removedPods;
  }

  /** In a dry run of preemption: pods to treat as placed on the node. For score: see {@link Info#scoreCopies()}. */
  public List<Pod> addedPods() {
    return addedPods;
  }

  /**
   * The whole cluster, with SNAPSHOT; else null. It does not change during the call, and never has copies of the pod.
   */
  public ClusterState cluster() {
    clusterUsed = true;
    return cluster;
  }

  /** Whether the caller has given up. */
  public boolean isCancelled() {
    return context.isCancelled();
  }

  /** The context of gRPC: its deadline, and listeners to its cancellation. */
  public io.grpc.Context context() {
    return context;
  }

  /** The W3C trace context of the caller ({@code traceparent}), for spans to join; null: it does not trace. */
  public String traceParent() {
    return Tracing.TRACE_PARENT.get(context);
  }

  /** Whether {@link #cluster()} has been called. */
  boolean clusterUsed() {
    return clusterUsed;
  }

  Call asDryRun(List<Pod> removed, List<Pod> added) {
    return new Call(pod, profile, count, config, state, removed, added, cluster, context);
  }
}
