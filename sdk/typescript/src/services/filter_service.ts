// Also change: internal/trireme/sdk/filtering.py (which names the other languages' files).

/** Serves FilterPlugin with a plugin's preFilter, filter, postFilter, reserve and unreserve. */
import type { Call, Node } from "../calls.js";
import { packVerdicts } from "../columns.js";
import { checkArray, checkFields } from "../checks.js";
import type { Pod } from "../generated/trireme/v1/core.js";
import { PodIdentity } from "../generated/trireme/v1/cycle.js";
import type {
  DryRun,
  FilterDryRunRequest,
  FilterDryRunResponse,
  FilterPluginServer,
  FilterRequest,
  FilterResponse,
  Placement as PlacementMessage,
  PostFilterRequest,
  PreFilterRequest,
  Reservation as ReservationMessage,
  ReserveRequest,
  UnreserveRequest,
  UnreserveResponse,
} from "../generated/trireme/v1/filter.js";
import { PostFilterResponse, PreFilterResponse, Reservation, ReserveResponse } from "../generated/trireme/v1/filter.js";
import { type Invoker, nodeAt, nodeOfView, type Turn } from "../invoker.js";
import type { Placement, Verdict } from "../plugin.js";
import { Status, SUCCESS } from "../results.js";

const PRE_FILTER = "nothing, SKIP, a status, or an object of {nodes, state}";
const POST_FILTER = "nothing, a status, or an object of {actions, nominatedNode, clearNomination, disruption}";
const POST_FILTER_FIELDS = {
  actions: "array",
  nominatedNode: "string",
  clearNomination: "boolean",
  disruption: "object",
} as const;
const RESERVE = "nothing, a status, or an object of {assumed, state}";

type AnyCall = Call<any, any>;

/** The implementation of FilterPlugin. */
export function filterService(invoker: Invoker): FilterPluginServer {
  const service = new FilterService(invoker);
  return {
    preFilter: invoker.unary("PreFilter", [], service.preFilter),
    filter: invoker.unary("Filter", ["filter", "filterNodes"], service.filter),
    filterDryRun: invoker.unary("FilterDryRun", ["filter", "filterNodes"], service.filterDryRun),
    postFilter: invoker.unary("PostFilter", ["postFilter"], service.postFilter),
    reserve: invoker.unary("Reserve", ["reserve"], service.reserve),
    unreserve: invoker.unary("Unreserve", [], service.unreserve),
  };
}

class FilterService {
  constructor(private readonly invoker: Invoker) {}

  readonly preFilter = async (request: PreFilterRequest, turn: Turn): Promise<PreFilterResponse> => {
    const call = await this.invoker.callFor(request.cycle, turn);
    return this.invoker.call("preFilter", async () => {
      const result = await this.invoker.plugin.preFilter?.(call);
      if (result === undefined || result instanceof Status) {
        return PreFilterResponse.fromPartial({ status: this.invoker.statusMessage(result, PRE_FILTER) });
      }
      checkFields(result, { nodes: "strings", state: "anything" }, PRE_FILTER);
      return PreFilterResponse.fromPartial({
        status: SUCCESS.toMessage(this.invoker.name),
        narrowed: result.nodes !== undefined,
        nodeNames: [...(result.nodes ?? [])],
        state: this.invoker.encode(result.state),
      });
    });
  };

  readonly filter = async (request: FilterRequest, turn: Turn): Promise<FilterResponse> => {
    const call = await this.invoker.callFor(request.cycle, turn, request.count);
    const verdicts = await this.verdicts(call, this.invoker.nodesOf(request.nodes));
    return this.pack(verdicts, request.cycle?.generation);
  };

  readonly filterDryRun = async (request: FilterDryRunRequest, turn: Turn): Promise<FilterDryRunResponse> => {
    const call = await this.invoker.callFor(request.cycle, turn);
    const verdicts: Verdict[] = [];
    for (const run of request.runs) {
      const [dryRunCall, node] = this.dryRun(call, run);
      verdicts.push(...(await this.verdicts(dryRunCall, [node])));
    }
    return this.pack(verdicts, request.cycle?.generation);
  };

  readonly postFilter = async (request: PostFilterRequest, turn: Turn): Promise<PostFilterResponse> => {
    const call = await this.invoker.callFor(request.cycle, turn);
    const { columns, preFilter } = request;
    return this.invoker.call("postFilter", async () => {
      const result = await this.invoker.plugin.postFilter!(call, { columns, preFilter });
      if (result === undefined || result instanceof Status) {
        return PostFilterResponse.fromPartial({ status: this.invoker.statusMessage(result, POST_FILTER) });
      }
      checkFields(result, POST_FILTER_FIELDS, POST_FILTER);
      return PostFilterResponse.fromPartial({
        status: SUCCESS.toMessage(this.invoker.name),
        actions: [...(result.actions ?? [])],
        nominatedNode: result.nominatedNode ?? "",
        clearNomination: result.clearNomination ?? false,
        disruption: result.disruption,
      });
    });
  };

  readonly reserve = async (request: ReserveRequest, turn: Turn): Promise<ReserveResponse> => {
    const call = await this.invoker.callFor(request.cycle, turn);
    const reservations: ReservationMessage[] = [];
    for (const placement of request.placements.map(placementOf)) {
      // The caller has given up, and its Unreserve may have come: nothing more may be taken.
      turn.signal.throwIfAborted();
      reservations.push(await this.invoker.call("reserve", () => this.reserveOne(call, placement)));
    }
    return ReserveResponse.fromPartial({ reservations });
  };

  readonly unreserve = async (request: UnreserveRequest, turn: Turn): Promise<UnreserveResponse> => {
    const call = await this.invoker.callFor(request.cycle, turn);
    for (const placement of request.placements.map(placementOf)) {
      await this.invoker.call("unreserve", () => this.invoker.plugin.unreserve?.(call, placement));
    }
    return {};
  };

  private async reserveOne(call: AnyCall, placement: Placement): Promise<ReservationMessage> {
    const result = await this.invoker.plugin.reserve!(call, placement);
    if (result === undefined || result instanceof Status) {
      return Reservation.fromPartial({ status: this.invoker.statusMessage(result, RESERVE) });
    }
    checkFields(result, { assumed: "array", state: "anything" }, RESERVE);
    return Reservation.fromPartial({
      status: SUCCESS.toMessage(this.invoker.name),
      assumed: [...(result.assumed ?? [])],
      state: this.invoker.encode(result.state),
    });
  }

  private async verdicts(call: AnyCall, nodes: Node[]): Promise<readonly Verdict[]> {
    const { plugin } = this.invoker;
    if (plugin.filterNodes === undefined) {
      return this.invoker.callForEachNode<Verdict>("filter", nodes, (node) => plugin.filter!(call, node));
    }
    return this.invoker.call("filterNodes", async () => {
      const verdicts = await plugin.filterNodes!(call, nodes);
      checkArray(verdicts, nodes.length, "verdicts");
      return verdicts;
    });
  }

  private pack(verdicts: readonly Verdict[], generation = 0n): Promise<FilterResponse> {
    const method = this.invoker.plugin.filterNodes === undefined ? "filter" : "filterNodes";
    return this.invoker.call(method, () => ({ columns: packVerdicts(this.invoker.name, verdicts, generation) }));
  }

  /** The call of a dry run and its node. Pods that are gone by now are left out; the host sees that the cluster changed. */
  private dryRun(call: AnyCall, run: DryRun): [AnyCall, Node] {
    const { cluster } = call;
    if (cluster === undefined) {
      const node = nodeOfView(run.node ?? { name: "", node: undefined, json: Buffer.alloc(0) });
      return [{ ...call, removedPods: run.removedPods, addedPods: run.addedPods }, node];
    }
    const removedPods = run.removedRows.map((row) => cluster.pod(row)?.pod).filter(isPresent);
    const addedPods = run.addedClasses.map((number) => cluster.classes.get(number)).filter(isPresent);
    return [{ ...call, removedPods, addedPods }, nodeAt(run.slot, cluster)];
  }
}

function placementOf({ pod, nodeName, slot }: PlacementMessage): Placement {
  return { pod: pod ?? PodIdentity.create(), nodeName, slot };
}

function isPresent(pod: Pod | undefined): pod is Pod {
  return pod !== undefined;
}
