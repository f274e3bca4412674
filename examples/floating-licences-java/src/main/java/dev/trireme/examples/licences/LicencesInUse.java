package dev.trireme.examples.licences;

import dev.trireme.sdk.PlacedPod;
import dev.trireme.v1.Pod;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.LongSupplier;

/**
 * Which pods have a licence. A pod on a node, bound or about to be, has one as long as it is there: that says the cluster,
 * also after this process was restarted. What is remembered here are the pods that have reserved one and are not on their
 * node yet.
 */
final class LicencesInUse {
  /** The label of pods that need a licence: the product. */
  static final String LABEL = "example.com/licence";

  /** The scheduler has placed a pod, or has called unreserve, long before; a reservation older than this is void. */
  private static final long MAX_AGE_NS = 60_000_000_000L;

  /**
   * A licence reserved for a pod that is not on its node yet.
   *
   * @param product what it is a licence of
   * @param since when it was reserved, by the clock
   */
  private record Reservation(String product, long since) {}

  private final Map<String, Reservation> byUid = new HashMap<>();
  private final LongSupplier clock;

  /** With a clock in nanoseconds, such as System::nanoTime. */
  LicencesInUse(LongSupplier clock) {
    this.clock = clock;
  }

  /** The product that a pod needs a licence of; empty: none. */
  static String product(Pod pod) {
    return pod.getMetadata().getLabelsMap().getOrDefault(LABEL, "");
  }

  /** How many licences of the product the pods on nodes and the reservations have. */
  synchronized int count(String product, Collection<PlacedPod> placed) {
    return holders(product, placed).size();
  }

  /** Reserves one of so many licences for a pod; true if it has one now, or had one before. */
  synchronized boolean reserve(String uid, String product, long total, Collection<PlacedPod> placed) {
    Set<String> holders = holders(product, placed);
    if (holders.contains(uid)) {
      return true;
    }
    if (holders.size() >= total) {
      return false;
    }
    byUid.put(uid, new Reservation(product, clock.getAsLong()));
    return true;
  }

  /** Returns the licence reserved for a pod, if there is one. */
  synchronized void unreserve(String uid) {
    byUid.remove(uid);
  }

  /** The UIDs of the pods that have a licence of the product. */
  private Set<String> holders(String product, Collection<PlacedPod> placed) {
    Set<String> holders = new HashSet<>();
    for (PlacedPod each : placed) {
      String needed = product(each.pod());
      if (needed.isEmpty()) {
        continue;
      }
      byUid.remove(each.uid()); // the cluster has it from now on
      if (needed.equals(product)) {
        holders.add(each.uid());
      }
    }
    long now = clock.getAsLong();
    byUid.values().removeIf(each -> now - each.since() > MAX_AGE_NS);
    byUid.forEach((uid, reservation) -> {
      if (reservation.product().equals(product)) {
        holders.add(uid);
      }
    });
    return holders;
  }
}
