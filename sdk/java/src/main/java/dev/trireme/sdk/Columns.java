// Also change: internal/trireme/sdk/filtering.py (which names the other languages' files).
package dev.trireme.sdk;

import dev.trireme.v1.Code;
import dev.trireme.v1.NodeColumns;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Packs verdicts about nodes into the columns of the contract. */
final class Columns {
  private static final String VERDICT = "Verdict.PASS, a capacity, or a status that refuses";

  private Columns() {}

  /** Makes columns of one verdict a node, each distinct status once. */
  static NodeColumns pack(String plugin, List<Verdict> verdicts, long generation) {
    NodeColumns.Builder columns = NodeColumns.newBuilder().setGeneration(generation).setSize(verdicts.size());
    Map<Status, Integer> numbers = new HashMap<>();
    for (Verdict verdict : verdicts) {
      if (verdict instanceof Verdict.Capacity passes) {
        columns.addStatusIndex(0).addCapacity(passes.copies());
      } else if (verdict instanceof Status status && (status.code() == Code.CODE_SKIP || status.code() == Code.CODE_WAIT)) {
        throw new InvalidResult("returned a status of " + status.code() + ": must be " + VERDICT);
      } else if (verdict instanceof Status status && status.code() != Code.CODE_SUCCESS) {
        Integer number = numbers.get(status);
        if (number == null) {
          number = numbers.size() + 1;
          numbers.put(status, number);
          columns.addStatuses(status.toMessage(plugin));
        }
        columns.addStatusIndex(number).addCapacity(0);
      } else if (verdict instanceof Status) {
        columns.addStatusIndex(0).addCapacity(Integer.MAX_VALUE);
      } else {
        throw new InvalidResult("returned null: must be " + VERDICT);
      }
    }
    return columns.build();
  }
}
