// Also change: internal/trireme/sdk/placing.py (which names the other languages' files).

/** Serves PodGroupPlugin with a plugin's placementFeasible. */
import { reject } from "../checks.js";
import { Pod } from "../generated/trireme/v1/core.js";
import { ObjectMeta } from "../generated/trireme/v1/meta.js";
import type {
  PlacementFeasibleRequest,
  PlacementFeasibleResponse,
  PlacementStep,
  PodGroupPluginServer,
} from "../generated/trireme/v1/pod_groups.js";
import { Code, type Status as StatusMessage } from "../generated/trireme/v1/status.js";
import type { Invoker, Turn } from "../invoker.js";
import type { PlacementTrial, TriedPod } from "../plugin.js";
import { Status } from "../results.js";

const EXPECTED = "nothing, moreMembers, unschedulable, or failed";
const CODES: readonly Code[] = [Code.SUCCESS, Code.WAIT, Code.UNSCHEDULABLE, Code.ERROR];

/** The implementation of PodGroupPlugin. */
export function podGroupService(invoker: Invoker): PodGroupPluginServer {
  return {
    placementFeasible: invoker.unary(
      "PlacementFeasible",
      ["placementFeasible"],
      (request: PlacementFeasibleRequest, turn) => placementFeasible(invoker, request, turn),
    ),
  };
}

/** Calls the method for each step, up to the first that ends the trial. */
async function placementFeasible(
  invoker: Invoker,
  request: PlacementFeasibleRequest,
  turn: Turn,
): Promise<PlacementFeasibleResponse> {
  const call = await invoker.callFor(request.cycle, turn);
  // Each with its fields, which several share.
  const tried = request.tried.map((each) => {
    const fields = request.podFields[each.fields] ?? Pod.create();
    const { namespace, name, uid } = each.pod?.metadata ?? ObjectMeta.create();
    const metadata = { ...(fields.metadata ?? ObjectMeta.create()), namespace, name, uid };
    return { pod: { ...fields, metadata }, nodeName: each.nodeName || undefined };
  });
  const statuses: StatusMessage[] = [];
  for (const step of request.steps) {
    const trial = trialOf(request, step, tried);
    const status = await invoker.call("placementFeasible", async () =>
      statusMessage(invoker, await invoker.plugin.placementFeasible!(call, trial)),
    );
    statuses.push(status);
    if (status.code !== Code.SUCCESS && status.code !== Code.WAIT) break;
  }
  return { statuses };
}

/** @throws InvalidResult for a status that the method may not return. */
function statusMessage(invoker: Invoker, result: unknown): StatusMessage {
  if (result instanceof Status && !CODES.includes(result.code)) reject(result, EXPECTED);
  return invoker.statusMessage(result, EXPECTED);
}

function trialOf(request: PlacementFeasibleRequest, step: PlacementStep, tried: readonly TriedPod[]): PlacementTrial {
  const composite = request.group?.$case === "compositePodGroup" ? request.group.value : undefined;
  const group = request.group?.$case === "podGroup" ? request.group.value : undefined;
  return {
    podGroup: group,
    compositePodGroup: composite,
    minCount: request.minCount,
    placement: request.placement,
    nodeNames: request.nodeNames,
    tried: tried.slice(0, step.tried),
    remaining: step.remaining,
    scheduled: step.scheduled,
    unschedulable: step.unschedulable,
  };
}
