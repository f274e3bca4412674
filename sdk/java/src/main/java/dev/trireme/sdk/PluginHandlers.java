// Also change: internal/trireme/sdk/plugin_server.py (which names the other languages' files).
package dev.trireme.sdk;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import dev.trireme.v1.ConfigureRequest;
import dev.trireme.v1.ConfigureResponse;
import dev.trireme.v1.GetPluginInfoRequest;
import dev.trireme.v1.GetPluginInfoResponse;
import dev.trireme.v1.GetPluginStatisticsRequest;
import dev.trireme.v1.GetPluginStatisticsResponse;
import dev.trireme.v1.PluginInfo;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;

/** Serves PluginService: the handshake and the configuration. */
final class PluginHandlers {
  private final Invoker invoker;

  PluginHandlers(Invoker invoker) {
    this.invoker = invoker;
  }

  GetPluginInfoResponse getPluginInfo(GetPluginInfoRequest request) {
    PluginInfo info = Description.of(invoker.plugin());
    List<String> missing = new ArrayList<>(info.getRequiredFeaturesList());
    missing.removeAll(request.getFeaturesList());
    if (!missing.isEmpty()) {
      throw Refusals.of(Status.FAILED_PRECONDITION, "required_features: the caller does not know "
          + String.join(", ", missing) + "; update the scheduler");
    }
    PluginInfo known = PodGroupHandlers.known(info, request.getFeaturesList());
    return GetPluginInfoResponse.newBuilder().addPlugins(known).setInstance(invoker.instance).build();
  }

  ConfigureResponse configure(ConfigureRequest request) {
    Plugin.Configurable plugin = invoker.as(Plugin.Configurable.class);
    JsonElement args = Invoker.parse("args_json", request.getArgsJson());
    Configuration configuration = new Configuration(
        request.getProfile(), args == null ? new JsonObject() : args, request.getFeatureGatesMap());
    return invoker.call("configure", () -> {
      try {
        Object config = plugin.configure(configuration);
        invoker.configurations.add(request.getConfigHash(), request.getProfile(), config);
        return ConfigureResponse.getDefaultInstance();
      } catch (InvalidArguments refused) {
        ConfigureResponse.Builder out = ConfigureResponse.newBuilder();
        refused.problems().forEach(problem ->
            out.addErrorsBuilder().setField(problem.field()).setMessage(problem.message()));
        return out.build();
      }
    });
  }

  GetPluginStatisticsResponse getPluginStatistics(GetPluginStatisticsRequest request) {
    throw Refusals.of(Status.UNIMPLEMENTED, "only phases call plugins");
  }
}
