package dev.trireme.sdk;

import com.google.gson.JsonElement;
import dev.trireme.v1.Hint;
import dev.trireme.v1.Pod;
import dev.trireme.v1.PreEnqueueRequest;
import dev.trireme.v1.PreEnqueueResponse;
import dev.trireme.v1.QueueingHintRequest;
import dev.trireme.v1.QueueingHintResponse;

/** Serves QueueService with a plugin's preEnqueue and queueingHint. */
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
