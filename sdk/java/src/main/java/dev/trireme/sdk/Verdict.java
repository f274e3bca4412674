// Also change: internal/trireme/sdk/filtering.py (which names the other languages' files).
package dev.trireme.sdk;

/** Filter's answer about a node: it passes, for some number of copies of the pod or any, or a status refuses it. */
public sealed interface Verdict permits Verdict.Capacity, Status {
  /** The node takes the pod, and any number of copies. */
  Verdict PASS = new Capacity(Integer.MAX_VALUE);

  /** The node takes so many copies of the pod, at least one. */
  static Verdict capacity(int copies) {
    return new Capacity(copies);
  }

  /**
   * The node takes copies of the pod.
   *
   * @param copies how many, at least 1
   */
  record Capacity(int copies) implements Verdict {
    /** Checks the number. */
    public Capacity {
      if (copies < 1) {
        throw new IllegalArgumentException("a node that passes takes at least 1 copy, not " + copies);
      }
    }
  }
}
