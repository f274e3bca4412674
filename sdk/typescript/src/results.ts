// Also change: internal/trireme/sdk/results.py (which names the other languages' files).

/** Results of a plugin's methods: refusals, skipping, waiting. */
import { Code, type Status as StatusMessage } from "./generated/trireme/v1/status.js";

/** A parameter of a reason; it is sent as text. */
export type Parameter = string | number | bigint | boolean;

/** A reason as data, which `trireme explain` shows: a stable code in lower camel case, and its parameters. */
export interface Reason {
  readonly code: string;
  readonly parameters?: Readonly<Record<string, Parameter>>;
}

/** One answer about a pod, or a pod on a node. The SDK adds the plugin's name. */
export class Status {
  constructor(
    readonly code: Code,
    readonly messages: readonly string[] = [],
    readonly reasons: readonly Reason[] = [],
  ) {}

  /** All messages as one text, as events show it. */
  get message(): string {
    return this.messages.join(", ");
  }

  /** The message of the contract, in the plugin's name. */
  toMessage(plugin: string): StatusMessage {
    const named = this.code !== Code.SUCCESS && this.code !== Code.SKIP;
    return {
      code: this.code,
      plugin: named ? plugin : "",
      messages: [...this.messages],
      reasons: this.reasons.map((reason) => ({ code: reason.code, parameters: asText(reason.parameters ?? {}) })),
    };
  }
}

/** The pod passes; the same as returning nothing. */
export const SUCCESS = new Status(Code.SUCCESS);

/**
 * The plugin has nothing to do for the pod, and its next step is left out.
 * For preFilter, preScore, preBind, preBindPreFlight and bind.
 */
export const SKIP = new Status(Code.SKIP);

/** Refused now; evicting pods may help. `message` is counted per node and is part of the pod's event. */
export function unschedulable(message: string, reason?: string, parameters?: Record<string, Parameter>): Status {
  return refusal(Code.UNSCHEDULABLE, message, reason, parameters);
}

/** Refused, and evicting pods would not help: preemption skips the node. */
export function unresolvable(message: string, reason?: string, parameters?: Record<string, Parameter>): Status {
  return refusal(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, message, reason, parameters);
}

/** Refused until something outside the scheduler has happened; the event that helps skips the back-off. */
export function pending(message: string, reason?: string, parameters?: Record<string, Parameter>): Status {
  return refusal(Code.PENDING, message, reason, parameters);
}

/** placementFeasible's result for a group that fits if more of it does; if no more does, it is unschedulable. */
export function moreMembers(message: string): Status {
  return new Status(Code.WAIT, [message]);
}

/** The plugin could not decide: the pod is tried again after a back-off. */
export function failed(message: string): Status {
  return new Status(Code.ERROR, [message]);
}

/** Permit's result for a pod that waits until `Handle.allow`; after `seconds` it is rejected. */
export class Wait {
  constructor(
    readonly seconds: number,
    readonly message = "",
  ) {
    if (!(seconds > 0)) throw new RangeError(`a wait has more than 0 seconds, not ${seconds}`);
  }
}

/** Lets a pod wait in permit. */
export function wait(seconds: number, message = ""): Wait {
  return new Wait(seconds, message);
}

function refusal(code: Code, message: string, reason?: string, parameters?: Record<string, Parameter>): Status {
  return new Status(code, [message], reason ? [{ code: reason, parameters }] : []);
}

function asText(parameters: Readonly<Record<string, Parameter>>): Record<string, string> {
  return Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, String(value)]));
}
