// Also change: internal/trireme/rpc/fencing.py (which names the other languages' files).

/**
 * Fencing: refuses calls of leaders that were deposed.
 *
 * An epoch numbers the leaders of one scheduler and only grows; epochs of different schedulers are not compared.
 */
import { status } from "@grpc/grpc-js";
import { CallError } from "./errors.js";
import type { Fence } from "./generated/trireme/v1/cycle.js";
import type { Logger } from "./logging.js";

/** Schedulers whose epochs are remembered; the one seen longest ago is forgotten first. */
const MAX_SCHEDULERS = 64;

const IF_RESTORED = "restart this process if the cluster was restored from a backup";

function stale(epoch: bigint, explanation: string): CallError {
  const message = `epoch ${epoch} is over: ${explanation}; ${IF_RESTORED}`;
  return new CallError(status.FAILED_PRECONDITION, message, "stale-epoch");
}

/** The highest epoch of each scheduler: several may call a plugin side by side. */
export class SchedulerEpochs {
  private readonly highest = new Map<string, bigint>();

  constructor(private readonly log: Logger) {}

  /** Records a caller's epoch; 0, a call that names no leader, is always admitted. @throws CallError if it is over. */
  admit(fence: Fence | undefined): void {
    const { epoch = 0n, schedulerId = "" } = fence ?? {};
    if (epoch === 0n) return;
    const highest = this.highest.get(schedulerId);
    if (highest !== undefined && epoch < highest) {
      throw stale(epoch, `a leader of epoch ${highest} has been seen`);
    }
    if (highest === undefined) this.log.info("called by a scheduler", { scheduler: schedulerId, epoch });
    if (highest !== epoch) remember(this.highest, schedulerId, epoch);
  }
}

/** The scheduler whose stream a plugin follows, and its highest epoch. */
export class EpochGuard {
  private schedulerId = "";
  private epoch = 0n;
  private readonly replaced = new Map<string, bigint>();

  /** Changes nothing. @throws CallError if the epoch is over. */
  check(fence: Fence | undefined): void {
    const { epoch = 0n, schedulerId = "" } = fence ?? {};
    if (this.epoch === 0n) return;
    if (schedulerId === this.schedulerId) {
      if (epoch < this.epoch) throw stale(epoch, `a leader of epoch ${this.epoch} has been seen`);
      return;
    }
    const highest = this.replaced.get(schedulerId) ?? 0n;
    if (epoch <= highest) {
      throw stale(epoch, `a leader of epoch ${highest} has been seen, and scheduler "${this.schedulerId}" came after`);
    }
  }

  /** Puts the epoch in force. @throws CallError if it is over. */
  admit(fence: Fence | undefined): void {
    this.check(fence);
    const { epoch = 0n, schedulerId = "" } = fence ?? {};
    if (this.epoch !== 0n && schedulerId !== this.schedulerId) {
      this.replaced.delete(schedulerId);
      remember(this.replaced, this.schedulerId, this.epoch);
    }
    this.schedulerId = schedulerId;
    this.epoch = epoch;
  }

  /** Admits the epoch of a call: one of another scheduler is checked alone, since only a stream switches to it. */
  admitCall(fence: Fence | undefined): void {
    if ((fence?.schedulerId ?? "") === this.schedulerId) this.admit(fence);
    else this.check(fence);
  }
}

function remember(epochs: Map<string, bigint>, schedulerId: string, epoch: bigint): void {
  epochs.delete(schedulerId);
  epochs.set(schedulerId, epoch);
  if (epochs.size > MAX_SCHEDULERS) epochs.delete(epochs.keys().next().value as string);
}
