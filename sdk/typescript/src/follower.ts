// Also change: internal/trireme/rpc/follower.py (which names the other languages' files).

/** Follows the snapshot stream for a plugin with NodeData.SNAPSHOT, and has calls wait for the generation they name. */
import { type ServerDuplexStream, status } from "@grpc/grpc-js";
import { ClusterState, OutOfStepError } from "./cluster.js";
import { CallError, toServiceError } from "./errors.js";
import { EpochGuard } from "./fencing.js";
import type { Cycle, Fence } from "./generated/trireme/v1/cycle.js";
import type { Delta, Hello, SyncRequest, SyncResponse } from "./generated/trireme/v1/snapshot.js";
import type { Logger } from "./logging.js";

/** How long a call waits for its generation, unless its deadline is sooner; milliseconds. */
const WAIT_MS = 2000;
/** How long before its deadline a waiting call gives up, so that the answer still arrives; milliseconds. */
const REPLY_MS = 50;
/** The delay of an acknowledgement: to acknowledge each delta would cost as much as to apply it. */
const ACKNOWLEDGE_MS = 100;

type Stream = ServerDuplexStream<SyncRequest, SyncResponse>;

/** One plugin's end of the stream. */
export class Follower {
  readonly cluster = new ClusterState();
  private readonly guard = new EpochGuard();
  private readonly streams = new Set<Stream>();
  private readonly waiting = new Set<() => void>();
  private current: Stream | undefined;
  private leader: Fence | undefined;
  /** The leader whose full sync came last: each leader numbers generations from the start. */
  private syncedBy: Fence | undefined;

  constructor(
    private readonly instance: string,
    private readonly log: Logger,
  ) {}

  /** The RPC Sync: applies and acknowledges deltas until the stream ends or another one replaces it. */
  readonly sync = (stream: Stream): void => {
    this.streams.add(stream);
    let scheduled: NodeJS.Timeout | undefined;
    let acknowledged = false;
    const acknowledge = () => {
      scheduled = undefined;
      if (stream !== this.current || !this.cluster.synced) return;
      acknowledged = true;
      const { generation } = this.cluster;
      const { instance } = this;
      stream.write({ appliedGeneration: generation, instance, takesDecisions: false, selfCheck: undefined });
    };
    stream.on("data", (request: SyncRequest) => {
      try {
        if (this.take(stream, request)) scheduled ??= setTimeout(acknowledge, acknowledged ? ACKNOWLEDGE_MS : 0);
      } catch (error) {
        this.end(stream, error);
      }
    });
    const close = () => {
      clearTimeout(scheduled);
      this.streams.delete(stream);
      if (stream === this.current) this.current = undefined;
    };
    stream.on("end", () => {
      close();
      stream.end();
    });
    stream.on("cancelled", close);
    stream.on("error", close);
  };

  /** Ends all streams, as the process stops. */
  endStreams(): void {
    for (const stream of this.streams) this.end(stream, new CallError(status.UNAVAILABLE, "the process ends"));
  }

  /**
   * Waits until the cluster is what the cycle needs.
   *
   * @throws CallError if its leader was deposed, or the generation is not reached in time.
   */
  async waitFor(cycle: Cycle, deadline: Date | undefined, signal: AbortSignal): Promise<void> {
    this.guard.admitCall(cycle.fence);
    if (this.hasReached(cycle)) return;
    const left = deadline === undefined ? WAIT_MS : deadline.getTime() - Date.now() - REPLY_MS;
    const end = Date.now() + Math.min(WAIT_MS, Math.max(left, 0));
    while (!this.hasReached(cycle)) {
      const remaining = end - Date.now();
      if (remaining <= 0 || signal.aborted) {
        throw new CallError(
          status.FAILED_PRECONDITION,
          `cycle.generation: ${cycle.generation} is not reached, the cluster is at ${this.cluster.generation}`,
        );
      }
      await this.nextChange(remaining);
    }
  }

  private hasReached(cycle: Cycle): boolean {
    const { epoch = 0n, schedulerId = "" } = cycle.fence ?? {};
    const sameLeader = epoch === (this.syncedBy?.epoch ?? 0n) && schedulerId === (this.syncedBy?.schedulerId ?? "");
    return this.cluster.synced && sameLeader && this.cluster.generation >= cycle.generation;
  }

  private nextChange(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, milliseconds);
      this.waiting.add(done);
    });
  }

  /** Takes one message; whether it is to be acknowledged. @throws CallError if the stream has to end. */
  private take(stream: Stream, request: SyncRequest): boolean {
    if (request.message?.$case === "hello") {
      this.accept(stream, request.message.value);
      return false;
    }
    if (stream !== this.current) {
      throw new CallError(status.INVALID_ARGUMENT, "message: a stream begins with hello");
    }
    // A newer frontend may send messages of a kind that is unknown here.
    if (request.message?.$case !== "delta") return false;
    this.apply(request.message.value);
    return this.cluster.synced;
  }

  private accept(stream: Stream, hello: Hello): void {
    this.guard.admit(hello.fence);
    const replaced = this.current;
    this.current = stream;
    this.leader = hello.fence;
    this.log.info("following a scheduler", { scheduler: hello.fence?.schedulerId, epoch: hello.fence?.epoch });
    if (replaced !== undefined && replaced !== stream) {
      this.end(replaced, new CallError(status.ABORTED, "another stream has replaced this one"));
    }
  }

  private apply(delta: Delta): void {
    try {
      this.cluster.apply(delta);
    } catch (error) {
      if (!(error instanceof OutOfStepError)) throw error;
      throw new CallError(status.FAILED_PRECONDITION, `delta: ${error.message}`);
    }
    if (this.cluster.synced) this.syncedBy = this.leader;
    for (const wake of [...this.waiting]) wake();
  }

  private end(stream: Stream, error: unknown): void {
    this.streams.delete(stream);
    if (stream === this.current) this.current = undefined;
    const known = error instanceof CallError ? error : new CallError(status.INTERNAL, `Sync: ${String(error)}`);
    if (known.code === status.INTERNAL) this.log.error("the stream failed", { error });
    stream.removeAllListeners("data");
    stream.resume();
    stream.emit("error", toServiceError(known));
  }
}
