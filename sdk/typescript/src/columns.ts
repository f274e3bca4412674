// Also change: internal/trireme/sdk/filtering.py (which names the other languages' files).

/** Packs verdicts about nodes into the columns of the contract. */
import { checkStatus, reject } from "./checks.js";
import { NodeColumns } from "./generated/trireme/v1/filter.js";
import { Code, type Status as StatusMessage } from "./generated/trireme/v1/status.js";
import type { Verdict } from "./plugin.js";
import { Status } from "./results.js";

/** The capacity of a node without a limit: INT32_MAX. */
export const UNLIMITED = 2 ** 31 - 1;

const VERDICT = "nothing, a whole number above 0, or a status";

/** Makes columns of one verdict a node, each distinct status once. @throws InvalidResult for what is no verdict. */
export function packVerdicts(plugin: string, verdicts: readonly Verdict[], generation: bigint): NodeColumns {
  const table = new StatusTable(plugin);
  const statusIndex = new Array<number>(verdicts.length).fill(0);
  const capacity = new Array<number>(verdicts.length).fill(UNLIMITED);
  verdicts.forEach((verdict, at) => {
    if (verdict === undefined) return;
    if (verdict instanceof Status) {
      if (verdict.code === Code.SUCCESS) return;
      checkStatus(verdict, VERDICT);
      statusIndex[at] = table.add(verdict);
      capacity[at] = 0;
    } else if (Number.isInteger(verdict) && verdict > 0) {
      capacity[at] = Math.min(verdict, UNLIMITED);
    } else {
      reject(verdict, VERDICT);
    }
  });
  return NodeColumns.fromPartial({
    generation,
    size: verdicts.length,
    statuses: table.messages,
    statusIndex,
    capacity,
  });
}

/** The distinct statuses of an answer, numbered from 1. */
class StatusTable {
  readonly messages: StatusMessage[] = [];
  private readonly byObject = new Map<Status, number>();
  private readonly byText = new Map<string, number>();

  constructor(private readonly plugin: string) {}

  add(value: Status): number {
    let number = this.byObject.get(value);
    if (number === undefined) {
      number = this.addMessage(value.toMessage(this.plugin));
      this.byObject.set(value, number);
    }
    return number;
  }

  private addMessage(message: StatusMessage): number {
    const reasons = message.reasons.map(({ code, parameters }) => [code, Object.entries(parameters).sort()]);
    const text = JSON.stringify([message.code, message.messages, reasons]);
    let number = this.byText.get(text);
    if (number === undefined) {
      number = this.messages.push(message);
      this.byText.set(text, number);
    }
    return number;
  }
}
