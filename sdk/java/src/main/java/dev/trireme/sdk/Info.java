// Also change: internal/trireme/sdk/description.py (which names the other languages' files).
package dev.trireme.sdk;

import java.util.List;

/**
 * A plugin's name, needs and limits.
 *
 * @param name what profiles call it
 * @param version answers are cached for as long as it stays: code or settings that answer otherwise are another version
 * @param dependsOn what results depend on
 * @param nodeData the form of nodes
 * @param podFields paths of a pod's fields, such as {@code spec.nodeSelector}; empty: those of the built-in plugins
 * @param normalization how scores come into 0 to 100
 * @param maxConcurrentCalls how many calls at once, the SDK has further ones wait; 0: as many as come
 * @param events which changes may help a pod that it refused; empty: every one
 * @param idempotent whether a call may be made twice, also at the same time and at two replicas, without any effect beyond
 *     the two answers, which are the same; the scheduler may then hedge calls that change nothing
 * @param scoreCopies whether score also answers for nodes with copies of the pod on them, so that pods of a class are placed
 *     in batches although the score depends on NODE_PODS. With SNAPSHOT the copies are in {@link Node#pods()}, and nowhere
 *     else: null means that it does, and that pods are placed one at a time where it calls {@link Call#cluster()}, which does
 *     not have them; true says that its answer is right all the same. With other forms of nodes the copies are in
 *     {@link Call#addedPods()}, which score has to count, and null means that it does not
 * @param requiredFeatures additions to the contract (docs/versioning.md) that the plugin cannot work without: a scheduler
 *     that lacks one rejects it and says which; an older one, which does not know this field, is refused at the handshake
 */
public record Info(
    String name,
    String version,
    Dependency dependsOn,
    NodeData nodeData,
    List<String> podFields,
    Normalization normalization,
    int maxConcurrentCalls,
    List<Event> events,
    boolean idempotent,
    Boolean scoreCopies,
    List<String> requiredFeatures) {

  /** A plugin of this name: it depends on anything, gets names of nodes, and has no limits. */
  public static Info of(String name) {
    return new Info(
        name, "", Dependency.CLUSTER, NodeData.NAMES, List.of(), Normalization.NONE, 0, List.of(), false, null,
        List.of());
  }

  /** The same with this version. */
  public Info withVersion(String value) {
    return new Info(
        name, value, dependsOn, nodeData, podFields, normalization, maxConcurrentCalls, events, idempotent,
        scoreCopies, requiredFeatures);
  }

  /** The same, depending on this. */
  public Info dependingOn(Dependency value) {
    return new Info(
        name, version, value, nodeData, podFields, normalization, maxConcurrentCalls, events, idempotent,
        scoreCopies, requiredFeatures);
  }

  /** The same with nodes in this form. */
  public Info withNodeData(NodeData value) {
    return new Info(
        name, version, dependsOn, value, podFields, normalization, maxConcurrentCalls, events, idempotent,
        scoreCopies, requiredFeatures);
  }

  /** The same with these fields of pods. */
  public Info withPodFields(String... paths) {
    return new Info(
        name, version, dependsOn, nodeData, List.of(paths), normalization, maxConcurrentCalls, events, idempotent,
        scoreCopies, requiredFeatures);
  }

  /** The same with scores of this kind. */
  public Info withNormalization(Normalization value) {
    return new Info(
        name, version, dependsOn, nodeData, podFields, value, maxConcurrentCalls, events, idempotent,
        scoreCopies, requiredFeatures);
  }

  /** The same with at most so many calls at once. */
  public Info withMaxConcurrentCalls(int value) {
    return new Info(name, version, dependsOn, nodeData, podFields, normalization, value, events, idempotent,
        scoreCopies, requiredFeatures);
  }

  /** The same with these events. */
  public Info withEvents(Event... values) {
    return new Info(
        name, version, dependsOn, nodeData, podFields, normalization, maxConcurrentCalls, List.of(values), idempotent,
        scoreCopies, requiredFeatures);
  }

  /** The same, whose calls may be made twice. */
  public Info withIdempotence() {
    return new Info(
        name, version, dependsOn, nodeData, podFields, normalization, maxConcurrentCalls, events, true, scoreCopies,
        requiredFeatures);
  }

  /** The same, whose score answers for nodes with copies of the pod on them, or does not. */
  public Info withScoreCopies(boolean value) {
    return new Info(
        name, version, dependsOn, nodeData, podFields, normalization, maxConcurrentCalls, events, idempotent, value,
        requiredFeatures);
  }

  /** The same, for schedulers with these features alone. */
  public Info withRequiredFeatures(String... values) {
    return new Info(
        name, version, dependsOn, nodeData, podFields, normalization, maxConcurrentCalls, events, idempotent,
        scoreCopies, List.of(values));
  }
}
