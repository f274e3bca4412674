// Also change: internal/trireme/sdk/placing.py (which names the other languages' files).
package dev.trireme.sdk;

import dev.trireme.v1.CompositePodGroup;
import dev.trireme.v1.PlacementFeasibleRequest;
import dev.trireme.v1.PlacementStep;
import dev.trireme.v1.Pod;
import dev.trireme.v1.PodGroup;
import dev.trireme.v1.TriedPod;
import java.util.List;

/**
 * A group of pods that is being tried in a placement, and how far the trial has come.
 *
 * @param podGroup the group's metadata and spec; null: it is made of groups
 * @param compositePodGroup the same of a group of groups; null: it is made of pods
 * @param minCount how many pods, or groups, must fit by the group's policy
 * @param placement the placement's name: of a topology domain its label's value. Empty: the group is tried on all nodes
 * @param nodeNames the placement's nodes; empty: all nodes
 * @param tried the pods that were tried so far, in order, each with the node that it would get, empty where no node of the
 *     placement takes it; of a group of groups those that fit in their groups
 * @param remaining pods, or groups, that were not tried yet
 * @param scheduled those that fit; with the pods of the group that had a node before
 * @param unschedulable those that do not fit
 */
public record PlacementTrial(
    PodGroup podGroup,
    CompositePodGroup compositePodGroup,
    int minCount,
    String placement,
    List<String> nodeNames,
    List<TriedPod> tried,
    int remaining,
    int scheduled,
    int unschedulable) {
  /** The pods that were tried with their fields, which several share. */
  static List<TriedPod> triedOf(PlacementFeasibleRequest request) {
    return request.getTriedList().stream().map(each -> {
      boolean known = each.getFields() >= 0 && each.getFields() < request.getPodFieldsCount();
      Pod.Builder pod = known ? request.getPodFields(each.getFields()).toBuilder() : Pod.newBuilder();
      return each.toBuilder().setPod(pod.mergeFrom(each.getPod())).clearFields().build();
    }).toList();
  }

  static PlacementTrial of(PlacementFeasibleRequest request, List<TriedPod> tried, PlacementStep step) {
    return new PlacementTrial(
        request.hasPodGroup() ? request.getPodGroup() : null,
        request.hasCompositePodGroup() ? request.getCompositePodGroup() : null,
        request.getMinCount(),
        request.getPlacement(),
        request.getNodeNamesList(),
        tried.subList(0, Math.min(step.getTried(), tried.size())),
        step.getRemaining(),
        step.getScheduled(),
        step.getUnschedulable());
  }
}
