// Also change: internal/trireme/sdk/plugin_server.py (which names the other languages' files).

/** Serves PluginService: the handshake and the configuration. */
import { status } from "@grpc/grpc-js";
import { InvalidArguments } from "../arguments.js";
import { describe, known } from "../description.js";
import { CallError } from "../errors.js";
import type {
  ConfigureRequest,
  ConfigureResponse,
  GetPluginInfoRequest,
  GetPluginInfoResponse,
  PluginServiceServer,
} from "../generated/trireme/v1/plugin.js";
import type { Invoker, Turn } from "../invoker.js";

/** The implementation of PluginService. */
export function pluginService(invoker: Invoker): PluginServiceServer {
  return {
    getPluginInfo: invoker.unary("GetPluginInfo", [], async (request: GetPluginInfoRequest) => getPluginInfo(invoker, request)),
    configure: invoker.unary("Configure", ["configure"], (request: ConfigureRequest, turn: Turn) =>
      configure(invoker, request, turn),
    ),
    getPluginStatistics: invoker.unary("GetPluginStatistics", [], async () => {
      throw new CallError(status.UNIMPLEMENTED, "only phases call plugins");
    }),
  };
}

/** The description; a caller that lacks a feature which the plugin requires is refused. */
function getPluginInfo(invoker: Invoker, request: GetPluginInfoRequest): GetPluginInfoResponse {
  const info = describe(invoker.plugin);
  const missing = info.requiredFeatures.filter((feature) => !request.features.includes(feature));
  if (missing.length > 0) {
    const text = `required_features: the caller does not know ${missing.join(", ")}; update the scheduler`;
    throw new CallError(status.FAILED_PRECONDITION, text);
  }
  return { plugins: [known(info, request.features)], instance: invoker.instance };
}

async function configure(invoker: Invoker, request: ConfigureRequest, _turn: Turn): Promise<ConfigureResponse> {
  const { profile, featureGates, configHash } = request;
  const args = parseArguments(request.argsJson);
  try {
    const config = await invoker.plugin.configure!({ profile, args, featureGates });
    invoker.configurations.add(configHash, profile, config);
    return { errors: [] };
  } catch (error) {
    if (error instanceof InvalidArguments) return { errors: error.problems.map((problem) => ({ ...problem })) };
    return invoker.call("configure", () => Promise.reject(error));
  }
}

function parseArguments(json: Uint8Array): unknown {
  try {
    return json.length === 0 ? {} : JSON.parse(Buffer.from(json).toString("utf8"));
  } catch (error) {
    throw new CallError(status.INVALID_ARGUMENT, `args_json: ${String(error)}`);
  }
}
