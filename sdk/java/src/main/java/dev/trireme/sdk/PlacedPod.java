// Also change: internal/trireme/sdk/cluster_state.py (which names the other languages' files).
package dev.trireme.sdk;

import dev.trireme.v1.Pod;

/**
 * One pod on a node, bound or about to be.
 *
 * @param uid its UID
 * @param name its name
 * @param pod what all pods of its class share: namespace, labels that a selector names, scheduling fields
 * @param slot the slot of its node
 * @param startTime seconds since 1970; 0: not started
 * @param terminating whether it is being deleted
 */
public record PlacedPod(
    String uid, String name, Pod pod, int slot, long startTime, boolean terminating) {}
