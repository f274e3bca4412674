// Also change: internal/trireme/sdk/queueing.py (which names the other languages' files).
package dev.trireme.sdk;

import com.google.gson.JsonElement;
import dev.trireme.v1.Hint;
import dev.trireme.v1.Pod;
import dev.trireme.v1.PreEnqueueRequest;
import dev.trireme.v1.PreEnqueueResponse;
import dev.trireme.v1.QueueSortRequest;
import dev.trireme.v1.QueueSortResponse;
import dev.trireme.v1.QueueingHintRequest;
import dev.trireme.v1.QueueingHintResponse;
import dev.trireme.v1.SortKey;
import io.grpc.StatusRuntimeException;
import java.util.List;

/** Serves QueueService with a plugin's preEnqueue, sortKey and queueingHint. */
final class QueueHandlers {
  private final Invoker invoker;

  QueueHandlers(Invoker invoker) {
    this.invoker = invoker;
  }

  PreEnqueueResponse preEnqueue(PreEnqueueRequest request) {
    Plugin.PreEnqueue plugin = invoker.as(Plugin.PreEnqueue.class);
    invoker.requireConfiguration(request.getConfigHash());
    PreEnqueueResponse.Builder out = PreEnqueueResponse.newBuilder();
    Plugin.Context context = new Plugin.Context(
        request.getProfile(), invoker.configurations.get(request.getConfigHash(), request.getProfile()));
    for (Pod pod : request.getPodsList()) {
      out.addStatuses(invoker.call("preEnqueue", () -> invoker.statusMessage(plugin.preEnqueue(pod, context), "")));
    }
    return out.build();
  }

  QueueSortResponse queueSort(QueueSortRequest request) {
    Plugin.QueueSort plugin = invoker.as(Plugin.QueueSort.class);
    invoker.requireConfiguration(request.getConfigHash());
    QueueSortResponse.Builder out = QueueSortResponse.newBuilder();
    Plugin.Context context = new Plugin.Context(
        request.getProfile(), invoker.configurations.get(request.getConfigHash(), request.getProfile()));
    boolean failed = false;
    for (Pod pod : request.getPodsList()) {
      try {
        out.addKeys(invoker.call("sortKey", () -> keyMessage(plugin.sortKey(pod, context))));
        out.addStatuses(Status.SUCCESS.toMessage(invoker.name()));
      } catch (StatusRuntimeException error) {
        // What fails about a pod leaves the others their keys.
        failed = true;
        String text = error.getStatus().getDescription();
        out.addKeys(SortKey.getDefaultInstance());
        out.addStatuses(Status.failed(text == null ? error.toString() : text).toMessage(invoker.name()));
      }
    }
    return failed ? out.build() : out.clearStatuses().build();
  }

  private static SortKey keyMessage(Plugin.SortKey key) {
    Invoker.required(key, "a SortKey");
    return SortKey.newBuilder()
        .addAllLevel(numbers("level", key.level(), 1))
        .addAllRest(numbers("rest", key.rest(), 0))
        .build();
  }

  /** The most numbers in each part of a key. */
  private static final int MAX_NUMBERS = 16;

  /** The numbers of one part of a key. Throws InvalidResult where it has too few or too many, or null among them. */
  private static List<Long> numbers(String part, List<Long> numbers, int least) {
    String expected = ": must be " + least + " to " + MAX_NUMBERS + " whole numbers";
    if (numbers == null || numbers.stream().anyMatch(number -> number == null)) {
      throw new InvalidResult("returned null " + (numbers == null ? "as " : "in ") + part + expected);
    }
    if (numbers.size() < least || numbers.size() > MAX_NUMBERS) {
      throw new InvalidResult("returned a " + part + " of " + numbers.size() + " numbers" + expected);
    }
    return numbers;
  }

  QueueingHintResponse queueingHint(QueueingHintRequest request) {
    Plugin.QueueingHint plugin = invoker.as(Plugin.QueueingHint.class);
    invoker.requireConfiguration(request.getConfigHash());
    JsonElement before = Invoker.parse("old_json", request.getOldJson());
    JsonElement after = Invoker.parse("new_json", request.getNewJson());
    Plugin.Change change = new Plugin.Change(
        request.getEvent().getResource(), request.getEvent().getActionsList(), before, after);
    QueueingHintResponse.Builder out = QueueingHintResponse.newBuilder();
    for (Pod pod : request.getPodsList()) {
      String profile = pod.getSpec().getSchedulerName();
      Plugin.Context context = new Plugin.Context(
          profile, invoker.configurations.getAny(request.getConfigHash(), profile));
      boolean helps = invoker.call("queueingHint", () -> plugin.queueingHint(pod, change, context));
      out.addHints(helps ? Hint.HINT_QUEUE : Hint.HINT_QUEUE_SKIP);
    }
    return out.build();
  }
}
