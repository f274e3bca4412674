// Also change: internal/trireme/sdk/description.py (which names the other languages' files).

/** A plugin's description for the handshake: its info, and the extension points that its methods implement. */
import { ExtensionPoint, Normalization as Normal, PluginInfo } from "./generated/trireme/v1/plugin.js";
import type { Method, Plugin } from "./plugin.js";
import { Dependency, NodeData, Normalization } from "./values.js";

const POINTS: readonly (readonly [Method, ExtensionPoint])[] = [
  ["preEnqueue", ExtensionPoint.PRE_ENQUEUE],
  ["sortKey", ExtensionPoint.QUEUE_SORT],
  ["preFilter", ExtensionPoint.PRE_FILTER],
  ["filter", ExtensionPoint.FILTER],
  ["filterNodes", ExtensionPoint.FILTER],
  ["postFilter", ExtensionPoint.POST_FILTER],
  ["preScore", ExtensionPoint.PRE_SCORE],
  ["score", ExtensionPoint.SCORE],
  ["scoreNodes", ExtensionPoint.SCORE],
  ["normalizeScores", ExtensionPoint.NORMALIZE_SCORE],
  ["reserve", ExtensionPoint.RESERVE],
  ["permit", ExtensionPoint.PERMIT],
  ["preBind", ExtensionPoint.PRE_BIND],
  ["bind", ExtensionPoint.BIND],
  ["postBind", ExtensionPoint.POST_BIND],
  ["placementFeasible", ExtensionPoint.PLACEMENT_FEASIBLE],
];

// Where a plugin may refuse a pod, which then waits for an event.
const REFUSING = new Set([
  ExtensionPoint.PRE_ENQUEUE,
  ExtensionPoint.PRE_FILTER,
  ExtensionPoint.FILTER,
  ExtensionPoint.RESERVE,
  ExtensionPoint.PERMIT,
  ExtensionPoint.PLACEMENT_FEASIBLE,
]);

/** A description without the extension points that a caller with these features does not know. */
export function known(info: PluginInfo, features: readonly string[]): PluginInfo {
  if (features.includes("placement-feasible")) return info;
  return { ...info, extensionPoints: info.extensionPoints.filter((point) => point !== ExtensionPoint.PLACEMENT_FEASIBLE) };
}

/**
 * The description that GetPluginInfo answers.
 *
 * @throws Error naming the field or method that is wrong.
 */
export function describe(plugin: Plugin): PluginInfo {
  const { info } = plugin;
  const points = new Set(POINTS.filter(([method]) => plugin[method] !== undefined).map(([, point]) => point));
  const problem = findProblem(plugin, points);
  if (problem !== undefined) throw new Error(`plugin ${info?.name || "(without a name)"}: ${problem}`);
  const own = plugin.normalizeScores !== undefined;
  const normalization = own ? Normal.CUSTOM : (info.normalization ?? Normalization.NONE);
  return PluginInfo.fromPartial({
    name: info.name,
    version: info.version ?? "",
    extensionPoints: [...points].sort((one, other) => one - other),
    eventsToRegister: (info.events ?? []).map((event) => ({
      resource: event.resource,
      actions: [...event.actions],
      hint: plugin.queueingHint !== undefined,
    })),
    maxConcurrentCalls: info.maxConcurrentCalls ?? 0,
    idempotent: info.idempotent ?? false,
    requiredFeatures: [...(info.requiredFeatures ?? [])],
    podFields: [...(info.podFields ?? [])],
    nodeData: (info.nodeData ?? NodeData.NAMES) as number,
    dependsOn: (info.dependsOn ?? Dependency.CLUSTER) as number,
    normalization: normalization as number,
    scoreCopies: scoresCopies(plugin, points),
  });
}

/** Whether ScoreCopies is served, so far as it would be called at all. */
function scoresCopies({ info, normalizeScores }: Plugin, points: ReadonlySet<ExtensionPoint>): boolean {
  if (!points.has(ExtensionPoint.SCORE)) return false;
  const follows = info.nodeData === NodeData.SNAPSHOT && info.dependsOn === Dependency.NODE_PODS;
  return info.scoreCopies ?? (follows && normalizeScores === undefined);
}

function findProblem(plugin: Plugin, points: ReadonlySet<ExtensionPoint>): string | undefined {
  if (!plugin.info?.name) return "info.name: must not be empty";
  if (points.size === 0) return "has no method of an extension point, such as filter or score";
  if (plugin.filter && plugin.filterNodes) return "has both filter and filterNodes";
  if (plugin.score && plugin.scoreNodes) return "has both score and scoreNodes";
  return findFieldProblem(plugin, points);
}

function findFieldProblem(plugin: Plugin, points: ReadonlySet<ExtensionPoint>): string | undefined {
  const { events = [], podFields = [], maxConcurrentCalls = 0, normalization } = plugin.info;
  const unique = podFields.find((field) => field === "metadata.name" || field === "metadata.uid");
  if (unique) return `info.podFields: ${unique} would make each pod a class of its own`;
  if (!Number.isInteger(maxConcurrentCalls) || maxConcurrentCalls < 0) {
    return "info.maxConcurrentCalls: must be a whole number of at least 0";
  }
  const scores = points.has(ExtensionPoint.SCORE);
  if (plugin.normalizeScores && !scores) return "has normalizeScores, but neither score nor scoreNodes";
  if ((normalization ?? Normalization.NONE) !== Normalization.NONE && !scores) {
    return "info.normalization: is for plugins with score or scoreNodes";
  }
  if (events.length > 0 && ![...points].some((point) => REFUSING.has(point))) {
    return "info.events: no event can help a pod of this plugin, because it cannot refuse one";
  }
  if (plugin.queueingHint && events.length === 0) return "has queueingHint, but info.events names no event";
  return undefined;
}
