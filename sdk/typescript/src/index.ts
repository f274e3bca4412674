// Also change: sdk/go/doc.go, internal/trireme/sdk/__init__.py, sdk/rust/src/lib.rs (the first example).

/**
 * Scheduler plugins in TypeScript: an object with a method for each extension point that it takes part in.
 *
 *     import { Dependency, main, NodeData, unresolvable } from "@trireme/plugin-sdk";
 *
 *     main("Maintenance", {
 *       info: { name: "Maintenance", dependsOn: Dependency.NODE, nodeData: NodeData.MESSAGES },
 *       filter: (call, node) =>
 *         "example.com/maintenance" in node.labels ? unresolvable("node(s) were under maintenance") : undefined,
 *     });
 *
 * That is a whole plugin: `node maintenance.js --listen 127.0.0.1:9000` serves it, with health and reflection.
 */
export { ArgumentReader, type Check, InvalidArguments, type Problem } from "./arguments.js";
export {
  type Call,
  type Change,
  type Codec,
  type Configuration,
  type Context,
  jsonCodec,
  Node,
} from "./calls.js";
export { ClusterState, type PlacedPod } from "./cluster.js";
export { describe } from "./description.js";
export { CallError } from "./errors.js";
export { Handle, type HandleTls, type PodName } from "./handle.js";
export { type Fields, type Level, type Logger, makeLogger, silentLogger } from "./logging.js";
export { type Flag, main, type PluginSource, type Startup } from "./main.js";
export { Metrics } from "./metrics.js";
export type {
  Awaitable,
  BindItem,
  Event,
  Info,
  Method,
  NoFit,
  Placement,
  PlacementTrial,
  Plugin,
  PostFilterResult,
  PreBindWait,
  PreFilterResult,
  Reservation,
  Result,
  SortKey,
  SortNumbers,
  TriedPod,
  Verdict,
} from "./plugin.js";
export {
  failed,
  moreMembers,
  type Parameter,
  pending,
  type Reason,
  SKIP,
  Status,
  SUCCESS,
  unresolvable,
  unschedulable,
  Wait,
  wait,
} from "./results.js";
export { type RunningServer, serve, type ServeOptions } from "./server.js";
export type { TlsFiles } from "./tls.js";
export { Dependency, NodeData, Normalization } from "./values.js";
