// Also change: internal/trireme/sdk/binding.py (which names the other languages' files).
package dev.trireme.sdk;

import dev.trireme.v1.BindRequest;
import dev.trireme.v1.BindResponse;
import dev.trireme.v1.PermitRequest;
import dev.trireme.v1.PermitResponse;
import dev.trireme.v1.PermitResult;
import dev.trireme.v1.PostBindRequest;
import dev.trireme.v1.PostBindResponse;
import dev.trireme.v1.PreBindPreFlightRequest;
import dev.trireme.v1.PreBindPreFlightResponse;
import dev.trireme.v1.PreBindRequest;
import dev.trireme.v1.PreBindResponse;
import dev.trireme.v1.PreBindResult;
import java.time.Duration;
import java.util.function.Consumer;

/** Serves BindPlugin with a plugin's permit, preBind, bind and postBind. */
final class BindHandlers {
  /** What a message of Duration may have at most: 10,000 years. */
  private static final Duration LONGEST = Duration.ofSeconds(315_576_000_000L);

  private final Invoker invoker;

  BindHandlers(Invoker invoker) {
    this.invoker = invoker;
  }

  PermitResponse permit(PermitRequest request) throws Exception {
    Plugin.Permit plugin = invoker.as(Plugin.Permit.class);
    return invoker.withCall(request.getCycle(), 1, call -> {
      PermitResponse.Builder out = PermitResponse.newBuilder();
      for (dev.trireme.v1.BindItem item : request.getItemsList()) {
        out.addResults(invoker.call("permit", () -> message(plugin.permit(call, invoker.item(item)))));
      }
      return out.build();
    });
  }

  PreBindPreFlightResponse preBindPreFlight(PreBindPreFlightRequest request) throws Exception {
    Plugin.PreBind plugin = invoker.as(Plugin.PreBind.class);
    return invoker.withCall(request.getCycle(), 1, call -> {
      PreBindPreFlightResponse.Builder out = PreBindPreFlightResponse.newBuilder();
      for (dev.trireme.v1.BindItem item : request.getItemsList()) {
        out.addStatuses(invoker.call("preBindPreFlight",
            () -> invoker.statusMessage(plugin.preBindPreFlight(call, invoker.item(item)), Invoker.SKIP)));
      }
      return out.build();
    });
  }

  PreBindResponse preBind(PreBindRequest request) throws Exception {
    Plugin.PreBind plugin = invoker.as(Plugin.PreBind.class);
    return invoker.withCall(request.getCycle(), 1, call -> {
      PreBindResponse.Builder out = PreBindResponse.newBuilder();
      for (dev.trireme.v1.BindItem item : request.getItemsList()) {
        out.addResults(invoker.call("preBind", () -> message(plugin.preBind(call, invoker.item(item)))));
      }
      return out.build();
    });
  }

  void bind(BindRequest request, Consumer<BindResponse> responses) throws Exception {
    Plugin.Bind plugin = invoker.as(Plugin.Bind.class);
    invoker.withCall(request.getCycle(), 1, call -> {
      for (int index = 0; index < request.getItemsCount(); index++) {
        BindItem item = invoker.item(request.getItems(index));
        BindResponse.Builder out = BindResponse.newBuilder();
        out.addResultsBuilder().setIndex(index)
            .setStatus(invoker.call("bind", () -> invoker.statusMessage(plugin.bind(call, item), Invoker.SKIP)));
        responses.accept(out.build());
      }
      return null;
    });
  }

  PostBindResponse postBind(PostBindRequest request) throws Exception {
    Plugin.PostBind plugin = invoker.as(Plugin.PostBind.class);
    return invoker.withCall(request.getCycle(), 1, call -> {
      for (dev.trireme.v1.BindItem item : request.getItemsList()) {
        invoker.call("postBind", () -> {
          plugin.postBind(call, invoker.item(item));
          return null;
        });
      }
      return PostBindResponse.getDefaultInstance();
    });
  }

  private PermitResult message(Plugin.PermitResult result) {
    dev.trireme.sdk.Status status = Invoker.required(result, "a PermitResult").status();
    PermitResult.Builder out = PermitResult.newBuilder().setStatus(invoker.statusMessage(status, ""));
    if (result.timeout() != null) {
      out.setTimeout(positive(result.timeout()));
    }
    return out.build();
  }

  private PreBindResult message(Plugin.PreBindResult result) {
    PreBindResult.Builder out = PreBindResult.newBuilder()
        .setStatus(invoker.statusMessage(Invoker.required(result, "a PreBindResult").status(), Invoker.SKIP))
        .addAllWaitFor(result.waitFor())
        .setState(invoker.encode(result.state()));
    if (result.timeout() != null) {
      if (result.waitFor().isEmpty()) {
        throw new InvalidResult("returned a wait for no object");
      }
      out.setTimeout(positive(result.timeout()));
    }
    return out.build();
  }

  /** The timeout, at most what the message may have. */
  private static com.google.protobuf.Duration positive(Duration timeout) {
    if (timeout.isZero() || timeout.isNegative()) {
      throw new InvalidResult("returned a wait with the timeout " + timeout + ": must be above 0");
    }
    Duration limited = timeout.compareTo(LONGEST) > 0 ? LONGEST : timeout;
    return com.google.protobuf.Duration.newBuilder()
        .setSeconds(limited.getSeconds()).setNanos(limited.getNano()).build();
  }
}
