// Also change: internal/trireme/sdk/invoker.py (which names the other languages' files).

/**
 * Calls a plugin's methods for RPCs: with its limit of concurrent calls, its configuration, and fencing.
 *
 * Whatever a method throws or returns, the caller gets a message of the contract or a gRPC error that names plugin and
 * method, and the process goes on.
 */
import { randomUUID } from "node:crypto";
import { type sendUnaryData, type ServerUnaryCall, type ServerWritableStream, status } from "@grpc/grpc-js";
import { type Call, type Codec, type Context, jsonCodec, Node } from "./calls.js";
import { checkStatus, reject } from "./checks.js";
import type { ClusterState } from "./cluster.js";
import { Configurations } from "./configurations.js";
import { CallError, InvalidResult, toServiceError } from "./errors.js";
import { SchedulerEpochs } from "./fencing.js";
import { Follower } from "./follower.js";
import { Pod } from "./generated/trireme/v1/core.js";
import { Cycle } from "./generated/trireme/v1/cycle.js";
import type { NodeSelection, NodeView } from "./generated/trireme/v1/filter.js";
import type { Status as StatusMessage } from "./generated/trireme/v1/status.js";
import type { Logger } from "./logging.js";
import type { Metrics } from "./metrics.js";
import type { Method, Plugin } from "./plugin.js";
import { Status, SUCCESS } from "./results.js";
import { NodeData } from "./values.js";

/** One RPC in progress. */
export interface Turn {
  readonly signal: AbortSignal;
  readonly deadline: Date | undefined;
  readonly traceParent: string | undefined;
}

type AnyCall = ServerUnaryCall<any, any> | ServerWritableStream<any, any>;

/** Calls the methods of one plugin. */
export class Invoker {
  readonly configurations = new Configurations();
  readonly instance = randomUUID().replaceAll("-", "");
  /** Follows the cluster; undefined unless the plugin's nodeData is SNAPSHOT. */
  readonly follower: Follower | undefined;
  private readonly epochs: SchedulerEpochs;
  private readonly queue: (() => void)[] = [];
  private running = 0;

  constructor(
    readonly plugin: Plugin,
    readonly log: Logger,
    private readonly metrics: Metrics,
  ) {
    this.epochs = new SchedulerEpochs(log);
    if (plugin.info.nodeData === NodeData.SNAPSHOT) this.follower = new Follower(this.instance, log);
  }

  /** The plugin's name. */
  get name(): string {
    return this.plugin.info.name;
  }

  /** The codec of the plugin's state. */
  get codec(): Codec<any> {
    return this.plugin.stateCodec ?? jsonCodec;
  }

  /** The handler of an RPC with one answer, which needs one of these methods; without any it always answers. */
  unary<Request, Response>(
    rpc: string,
    methods: readonly Method[],
    answer: (request: Request, turn: Turn) => Promise<Response>,
  ): (call: ServerUnaryCall<Request, Response>, callback: sendUnaryData<Response>) => void {
    return (call, callback) => {
      void this.run(rpc, methods, call, (turn) => answer(call.request, turn)).then(
        (response) => callback(null, response),
        (error: CallError) => callback(toServiceError(error)),
      );
    };
  }

  /** The handler of an RPC with a stream of answers. */
  streaming<Request, Response>(
    rpc: string,
    methods: readonly Method[],
    answer: (request: Request, turn: Turn, write: (response: Response) => void) => Promise<void>,
  ): (call: ServerWritableStream<Request, Response>) => void {
    return (call) => {
      const write = (response: Response) => void call.write(response);
      void this.run(rpc, methods, call, (turn) => answer(call.request, turn, write)).then(
        () => call.end(),
        (error: CallError) => call.emit("error", toServiceError(error)),
      );
    };
  }

  /** The call of a cycle. @throws CallError if its leader is deposed, or its configuration is not known. */
  async callFor(cycle: Cycle | undefined, turn: Turn, count = 1): Promise<Call<any, any>> {
    const known = cycle ?? Cycle.create();
    this.epochs.admit(known.fence);
    this.requireConfiguration(known.configHash);
    await this.follower?.waitFor(known, turn.deadline, turn.signal);
    return {
      pod: known.pod ?? Pod.create(),
      profile: known.profile,
      state: known.state.length > 0 ? this.decode("cycle.state", known.state) : undefined,
      count: count || 1,
      config: this.configurations.get(known.configHash, known.profile),
      removedPods: [],
      addedPods: [],
      cluster: this.follower?.cluster,
      ...turn,
    };
  }

  /** The context of a call without a cycle. */
  contextFor<C>(profile: string, config: C, turn: Turn): Context<C> {
    return { profile, config, ...turn };
  }

  /** @throws CallError if the plugin takes arguments and does not have this configuration; the caller then sends it. */
  requireConfiguration(hash: bigint): void {
    if (this.plugin.configure === undefined || this.configurations.has(hash)) return;
    const message = `config_hash: plugin ${this.name} does not have this configuration`;
    throw new CallError(status.FAILED_PRECONDITION, message, "config-mismatch");
  }

  /** The nodes of a call: in the request, or by slot where the plugin follows the cluster. */
  nodesOf(selection: NodeSelection | undefined): Node[] {
    const cluster = this.follower?.cluster;
    if (cluster === undefined) return (selection?.nodes ?? []).map(nodeOfView);
    return (selection?.slots ?? []).map((slot) => nodeAt(slot, cluster));
  }

  /** Runs a step of a method; an exception becomes a CallError that names plugin and method. */
  async call<T>(method: Method, step: () => T | Promise<T>): Promise<T> {
    try {
      return await step();
    } catch (error) {
      throw this.describeFailure(method, error);
    }
  }

  /** Calls a method for each node, one after the other; it is awaited only where it returns a promise. */
  async callForEachNode<T>(
    method: Method,
    nodes: readonly Node[],
    step: (node: Node) => T | Promise<T>,
  ): Promise<T[]> {
    const results = new Array<T>(nodes.length);
    let at = 0;
    try {
      for (; at < nodes.length; at++) {
        const result = step(nodes[at]!);
        results[at] = result instanceof Promise ? await result : result;
      }
    } catch (error) {
      throw this.describeFailure(method, error, ` for node ${nodes[at]?.name ?? ""}`);
    }
    return results;
  }

  /** The message of a result that is nothing or a status. @throws InvalidResult for anything else. */
  statusMessage(result: unknown, expected = "nothing or a status"): StatusMessage {
    if (result === undefined) return SUCCESS.toMessage(this.name);
    if (!(result instanceof Status)) reject(result, expected);
    checkStatus(result, expected);
    return result.toMessage(this.name);
  }

  /** Decodes state that came back. @throws CallError if the codec does not read it. */
  decode(field: string, bytes: Uint8Array): unknown {
    try {
      return this.codec.decode(bytes);
    } catch (error) {
      throw new CallError(status.INVALID_ARGUMENT, `${field}: plugin ${this.name} cannot decode it: ${String(error)}`);
    }
  }

  /** Encodes a method's state; undefined is none. */
  encode(state: unknown): Buffer {
    return state === undefined ? Buffer.alloc(0) : Buffer.from(this.codec.encode(state));
  }

  private async run<T>(
    rpc: string,
    methods: readonly Method[],
    call: AnyCall,
    body: (turn: Turn) => Promise<T>,
  ): Promise<T> {
    const finished = this.metrics.begin(rpc);
    try {
      const result = await this.runInTurn(methods, call, body);
      finished("OK");
      return result;
    } catch (error) {
      const known = error instanceof CallError ? error : this.describeFailure(undefined, error);
      finished(status[known.code]);
      throw known;
    }
  }

  private async runInTurn<T>(methods: readonly Method[], call: AnyCall, body: (turn: Turn) => Promise<T>): Promise<T> {
    if (methods.length > 0 && !methods.some((method) => this.plugin[method] !== undefined)) {
      throw new CallError(status.UNIMPLEMENTED, `plugin ${this.name} has no ${methods[0]}`);
    }
    const abort = new AbortController();
    call.on("cancelled", () => abort.abort(new CallError(status.CANCELLED, "the caller has given up")));
    const limit = this.plugin.info.maxConcurrentCalls ?? 0;
    if (limit > 0 && this.running >= limit) await new Promise<void>((resolve) => this.queue.push(resolve));
    else this.running++;
    try {
      abort.signal.throwIfAborted();
      const traceParent = call.metadata.get("traceparent")[0]?.toString();
      return await body({ signal: abort.signal, deadline: deadlineOf(call), traceParent });
    } finally {
      const next = this.queue.shift();
      if (next === undefined) this.running--;
      else next(); // takes over this place
    }
  }

  private describeFailure(method: Method | undefined, error: unknown, where = ""): CallError {
    if (error instanceof CallError) return error;
    const cause = error instanceof InvalidResult ? error.message : String(error);
    const message = `plugin ${this.name}: ${describeMethod(method, error)}${where}: ${cause}`;
    this.log.error(message, error instanceof InvalidResult ? {} : { error });
    return new CallError(status.INTERNAL, message);
  }
}

// Methods whose RPC has another name.
const RPCS: Partial<Record<Method, string>> = {
  sortKey: "QueueSort",
  filterNodes: "Filter",
  scoreNodes: "Score",
  normalizeScores: "NormalizeScore",
};

/** The method; where it returned what it must not, also the RPC. */
function describeMethod(method: Method | undefined, error: unknown): string {
  if (method === undefined) return "the SDK";
  if (!(error instanceof InvalidResult)) return method;
  return `${RPCS[method] ?? method[0]!.toUpperCase() + method.slice(1)}: ${method}`;
}

function deadlineOf(call: AnyCall): Date | undefined {
  const deadline = call.getDeadline();
  if (deadline instanceof Date) return deadline;
  return Number.isFinite(deadline) ? new Date(deadline) : undefined;
}

/** The node of a view. */
export function nodeOfView(view: NodeView): Node {
  return new Node(view.name, view.node, view.json);
}

/** The node at the slot; without a name if it was deleted since the call was made. */
export function nodeAt(slot: number, cluster: ClusterState): Node {
  const message = cluster.nodes.get(slot);
  return new Node(message?.metadata?.name ?? "", message, undefined, cluster.podsOn(slot));
}
