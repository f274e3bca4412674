/** The pods that wait because of a window, and when they are to be woken. */
import type { PodName } from "@trireme/plugin-sdk";

/** The most pods that are remembered; the one seen longest ago is forgotten first. */
const MAX_PODS = 10_000;

/** The longest time of a timer; Node.js has none beyond 2³¹ ms. */
const MAX_TIMER_MS = 24 * 60 * 60 * 1000;

/** Wakes pods at a time. */
export type Wake = (pods: readonly PodName[]) => Promise<void>;

/**
 * Filter sees what the pods of a class share, and not which pods they are; preEnqueue sees each pod. So pods are
 * remembered as they enter the queue, by namespace, and those of a namespace are woken when a window ends that one of
 * its pods was refused for.
 */
export class PendingPods {
  private readonly pods = new Map<string, PodName>();
  /** For each namespace when its pods are woken; milliseconds since 1970. */
  private readonly wakeAt = new Map<string, number>();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly wake: Wake,
    private readonly now: () => number = Date.now,
  ) {}

  /** A pod enters the queue. */
  add(pod: PodName): void {
    this.pods.delete(pod.uid);
    this.pods.set(pod.uid, pod);
    if (this.pods.size > MAX_PODS) this.pods.delete(this.pods.keys().next().value as string);
  }

  /** A pod was bound. */
  remove(uid: string): void {
    this.pods.delete(uid);
  }

  /** A pod of the namespace was refused for a window that ends then. */
  refused(namespace: string, until: number): void {
    const before = this.wakeAt.get(namespace);
    if (before !== undefined && before <= until) return;
    this.wakeAt.set(namespace, until);
    this.schedule();
  }

  /** Stops the timer. */
  close(): void {
    clearTimeout(this.timer);
  }

  /** Wakes the pods whose time has come. */
  async wakeDue(): Promise<void> {
    const due = new Set([...this.wakeAt].filter(([, at]) => at <= this.now()).map(([namespace]) => namespace));
    for (const namespace of due) this.wakeAt.delete(namespace);
    const pods = [...this.pods.values()].filter((pod) => due.has(pod.namespace));
    if (pods.length > 0) await this.wake(pods);
  }

  private schedule(): void {
    clearTimeout(this.timer);
    if (this.wakeAt.size === 0) return;
    const delay = Math.min(...this.wakeAt.values()) - this.now();
    this.timer = setTimeout(() => void this.wakeDue().finally(() => this.schedule()), clamp(delay));
    this.timer.unref();
  }
}

function clamp(milliseconds: number): number {
  return Math.min(Math.max(milliseconds, 0), MAX_TIMER_MS);
}
