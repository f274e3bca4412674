// Also change: internal/trireme/sdk/plugin_server.py (which names the other languages' files).

/** Serves a plugin on one address: its extension points, the handshake, health and reflection. */
import { chmodSync } from "node:fs";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { HealthImplementation } from "grpc-health-check";
import { clearSocket, parseAddress } from "./address.js";
import { describe } from "./description.js";
import { BindPluginService } from "./generated/trireme/v1/bind.js";
import { FilterPluginService } from "./generated/trireme/v1/filter.js";
import { PluginServiceService } from "./generated/trireme/v1/plugin.js";
import { PodGroupPluginService } from "./generated/trireme/v1/pod_groups.js";
import { QueueServiceService } from "./generated/trireme/v1/queue.js";
import { ScorePluginService } from "./generated/trireme/v1/score.js";
import { SnapshotFollowerService } from "./generated/trireme/v1/snapshot.js";
import { Invoker } from "./invoker.js";
import { type Logger, makeLogger } from "./logging.js";
import { Metrics } from "./metrics.js";
import type { Method, Plugin } from "./plugin.js";
import { addReflection } from "./reflection.js";
import { bindService } from "./services/bind_service.js";
import { filterService } from "./services/filter_service.js";
import { pluginService } from "./services/plugin_service.js";
import { podGroupService } from "./services/pod_group_service.js";
import { queueService } from "./services/queue_service.js";
import { scoreService } from "./services/score_service.js";
import { identityInterceptor, ReloadedFiles, serverCredentials, type TlsFiles } from "./tls.js";

/** The largest message to or from a plugin, in bytes. */
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
/** How long calls in flight may take after SIGTERM; below the 30 s that Kubernetes waits before SIGKILL. */
const GRACE_MS = 20_000;

/** How a plugin is served. */
export interface ServeOptions {
  /** `host:port` (port 0: any free one) or `unix:/path`. */
  readonly listen?: string;
  /** Not used, nor are identities, where it listens on a Unix socket: its permissions say who may call. */
  readonly tls?: TlsFiles;
  /** Names of callers' certificates that may call; unset: all that the client CA signed. */
  readonly allowedIdentities?: readonly string[];
  readonly log?: Logger;
  readonly metrics?: Metrics;
}

/** A plugin that is being served. */
export interface RunningServer {
  /** The address, with the port that was chosen. */
  readonly address: string;
  /** Refuses new calls, waits for those in flight, at most 20 s. */
  stop(): Promise<void>;
}

// For each service: the methods that require it, and how it is served.
const SERVICES: readonly [string, any, (invoker: Invoker) => any, readonly Method[]][] = [
  ["trireme.v1.QueueService", QueueServiceService, queueService, ["preEnqueue", "sortKey", "queueingHint"]],
  [
    "trireme.v1.FilterPlugin",
    FilterPluginService,
    filterService,
    ["preFilter", "filter", "filterNodes", "postFilter", "reserve", "unreserve"],
  ],
  [
    "trireme.v1.ScorePlugin",
    ScorePluginService,
    scoreService,
    ["preScore", "score", "scoreNodes", "normalizeScores"],
  ],
  ["trireme.v1.BindPlugin", BindPluginService, bindService, ["permit", "preBind", "bind", "postBind"]],
  ["trireme.v1.PodGroupPlugin", PodGroupPluginService, podGroupService, ["placementFeasible"]],
];

/**
 * Serves the plugin until `stop`.
 *
 * @throws Error if the plugin describes itself wrongly, or the address or a certificate cannot be used.
 */
export async function serve(plugin: Plugin, options: ServeOptions = {}): Promise<RunningServer> {
  describe(plugin);
  const log = options.log ?? makeLogger();
  const address = parseAddress(options.listen ?? "127.0.0.1:0");
  // A Unix socket is plain: its permissions say who may call.
  const tls = address.socketPath === undefined ? options.tls : undefined;
  const files = tls && new ReloadedFiles(tls, log);
  const invoker = new Invoker(plugin, log, options.metrics ?? new Metrics(plugin.info.name));
  const allowed = address.socketPath === undefined ? (options.allowedIdentities ?? []) : [];
  const server = new Server({
    "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
    "grpc.max_send_message_length": MAX_MESSAGE_BYTES,
    // Notices a caller that vanished without closing its connection.
    "grpc.keepalive_time_ms": 45_000,
    "grpc.keepalive_timeout_ms": 15_000,
    interceptors: allowed.length > 0 ? [identityInterceptor(new Set(allowed), log)] : [],
  });
  const services = addServices(server, invoker);
  const health = addHealth(server, services);
  addReflection(server, services);
  if (address.socketPath !== undefined) await clearSocket(address.socketPath);
  const credentials = tls && files ? serverCredentials(tls, files) : ServerCredentials.createInsecure();
  const port = await listen(server, address.text, credentials);
  // Anybody who can open the socket may call: restrict it to this user.
  if (address.socketPath !== undefined) chmodSync(address.socketPath, 0o600);
  return {
    address: address.socketPath === undefined ? address.text.replace(/\d+$/, String(port)) : address.text,
    stop: async () => {
      for (const name of ["", ...services]) health.setStatus(name, "NOT_SERVING");
      invoker.follower?.endStreams();
      await shutDown(server);
      files?.close();
    },
  };
}

function addServices(server: Server, invoker: Invoker): string[] {
  server.addService(PluginServiceService, pluginService(invoker));
  const names = ["trireme.v1.PluginService"];
  for (const [name, definition, implement, methods] of SERVICES) {
    if (!methods.some((method) => invoker.plugin[method] !== undefined)) continue;
    server.addService(definition, implement(invoker));
    names.push(name);
  }
  if (invoker.follower !== undefined) {
    server.addService(SnapshotFollowerService, { sync: invoker.follower.sync });
    names.push("trireme.v1.SnapshotFollower");
  }
  return names;
}

function addHealth(server: Server, services: readonly string[]): HealthImplementation {
  const serving = Object.fromEntries(["", ...services].map((name) => [name, "SERVING" as const]));
  const health = new HealthImplementation(serving);
  health.addToServer(server);
  return health;
}

function listen(server: Server, address: string, credentials: ServerCredentials): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentials, (error, port) => {
      if (error === null) resolve(port);
      else reject(new Error(`--listen: ${address}: ${error.message}`));
    });
  });
}

async function shutDown(server: Server): Promise<void> {
  const timer = setTimeout(() => server.forceShutdown(), GRACE_MS);
  await new Promise<void>((resolve) => server.tryShutdown(() => resolve()));
  clearTimeout(timer);
}
