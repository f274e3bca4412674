// Also change: internal/trireme/rpc/fencing.py (which names the other languages' files).
package dev.trireme.sdk;

import dev.trireme.v1.Fence;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Refuses calls of leaders that were deposed. An epoch numbers the leaders of one scheduler and only grows; epochs of
 * different schedulers are not compared.
 */
final class Fencing {
  /** Schedulers whose epochs are remembered; the one seen longest ago is forgotten first. */
  private static final int MAX_SCHEDULERS = 64;

  private Fencing() {}

  private static Map<String, Long> memory() {
    return new LinkedHashMap<>() {
      private static final long serialVersionUID = 1L;

      @Override
      protected boolean removeEldestEntry(Map.Entry<String, Long> eldest) {
        return size() > MAX_SCHEDULERS;
      }
    };
  }

  private static void remember(Map<String, Long> epochs, String scheduler, long epoch) {
    epochs.remove(scheduler);
    epochs.put(scheduler, epoch);
  }

  private static String seen(long epoch) {
    return "a leader of epoch " + Long.toUnsignedString(epoch) + " has been seen";
  }

  /** The highest epoch of each scheduler: several may call a plugin side by side. */
  static final class SchedulerEpochs {
    private final Map<String, Long> highest = memory();

    /** Records a caller's epoch; 0, a call that names no leader, is always admitted. */
    synchronized void admit(Fence fence) {
      long epoch = fence.getEpoch();
      if (epoch == 0) {
        return;
      }
      Long before = highest.get(fence.getSchedulerId());
      if (before != null && Long.compareUnsigned(epoch, before) < 0) {
        throw Refusals.staleEpoch(epoch, seen(before));
      }
      if (before == null) {
        Log.info("called by a scheduler",
            "scheduler", fence.getSchedulerId(), "epoch", Long.toUnsignedString(epoch));
      }
      if (before == null || before != epoch) {
        remember(highest, fence.getSchedulerId(), epoch);
      }
    }
  }

  /** The scheduler whose stream a plugin follows, and its highest epoch. Its owner locks it. */
  static final class EpochGuard {
    private String scheduler = "";
    private long epoch;
    private final Map<String, Long> replaced = memory();

    /** Throws if the epoch is over; changes nothing. */
    void check(Fence fence) {
      if (epoch == 0) {
        return;
      }
      if (fence.getSchedulerId().equals(scheduler)) {
        if (Long.compareUnsigned(fence.getEpoch(), epoch) < 0) {
          throw Refusals.staleEpoch(fence.getEpoch(), seen(epoch));
        }
        return;
      }
      long highest = replaced.getOrDefault(fence.getSchedulerId(), 0L);
      if (Long.compareUnsigned(fence.getEpoch(), highest) <= 0) {
        throw Refusals.staleEpoch(
            fence.getEpoch(), seen(highest) + ", and scheduler \"" + scheduler + "\" came after");
      }
    }

    /** Puts the epoch in force, or throws if it is over. */
    void admit(Fence fence) {
      check(fence);
      if (epoch != 0 && !fence.getSchedulerId().equals(scheduler)) {
        replaced.remove(fence.getSchedulerId());
        remember(replaced, scheduler, epoch);
      }
      scheduler = fence.getSchedulerId();
      epoch = fence.getEpoch();
    }

    /** Admits the epoch of a call: one of another scheduler is checked alone, since only a stream switches to it. */
    void admitCall(Fence fence) {
      if (fence.getSchedulerId().equals(scheduler)) {
        admit(fence);
      } else {
        check(fence);
      }
    }
  }
}
