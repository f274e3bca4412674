// Also change: internal/trireme/sdk/queueing.py (which names the other languages' files).

/** Serves QueueService with a plugin's preEnqueue, sortKey and queueingHint. */
import { status } from "@grpc/grpc-js";
import type { Change } from "../calls.js";
import { checkFields, reject } from "../checks.js";
import { CallError } from "../errors.js";
import {
  Hint,
  type PreEnqueueRequest,
  type PreEnqueueResponse,
  type QueueingHintRequest,
  type QueueingHintResponse,
  type QueueServiceServer,
  type QueueSortRequest,
  type QueueSortResponse,
  SortKey as KeyMessage,
  type SortKey as SortKeyMessage,
} from "../generated/trireme/v1/queue.js";
import type { Invoker, Turn } from "../invoker.js";
import { failed, type Status, SUCCESS } from "../results.js";

/** The implementation of QueueService. */
export function queueService(invoker: Invoker): QueueServiceServer {
  return {
    preEnqueue: invoker.unary("PreEnqueue", ["preEnqueue"], (request: PreEnqueueRequest, turn) =>
      preEnqueue(invoker, request, turn),
    ),
    queueSort: invoker.unary("QueueSort", ["sortKey"], (request: QueueSortRequest, turn) =>
      queueSort(invoker, request, turn),
    ),
    queueingHint: invoker.unary("QueueingHint", ["queueingHint"], (request: QueueingHintRequest, turn) =>
      queueingHint(invoker, request, turn),
    ),
  };
}

async function preEnqueue(invoker: Invoker, request: PreEnqueueRequest, turn: Turn): Promise<PreEnqueueResponse> {
  invoker.requireConfiguration(request.configHash);
  const config = invoker.configurations.get(request.configHash, request.profile);
  const context = invoker.contextFor(request.profile, config, turn);
  const statuses = [];
  for (const pod of request.pods) {
    statuses.push(
      await invoker.call("preEnqueue", async () => invoker.statusMessage(await invoker.plugin.preEnqueue!(pod, context))),
    );
  }
  return { statuses };
}

async function queueSort(invoker: Invoker, request: QueueSortRequest, turn: Turn): Promise<QueueSortResponse> {
  invoker.requireConfiguration(request.configHash);
  const config = invoker.configurations.get(request.configHash, request.profile);
  const context = invoker.contextFor(request.profile, config, turn);
  const keys: SortKeyMessage[] = [];
  const statuses: Status[] = [];
  for (const pod of request.pods) {
    try {
      keys.push(await invoker.call("sortKey", async () => keyMessage(await invoker.plugin.sortKey!(pod, context))));
      statuses.push(SUCCESS);
    } catch (error) {
      // What fails about a pod leaves the others their keys.
      turn.signal.throwIfAborted();
      keys.push(KeyMessage.create());
      statuses.push(failed((error as Error).message));
    }
  }
  const none = statuses.every((each) => each === SUCCESS);
  return { keys, statuses: none ? [] : statuses.map((each) => each.toMessage(invoker.name)) };
}

const MAX_NUMBERS = 16;
const SORT_KEY = "a whole number of 64 bits, an array of 1 to 16 such, or an object of {level, rest} of these";

/** The message of a key. @throws InvalidResult saying what came, and what is expected. */
function keyMessage(result: unknown): SortKeyMessage {
  const parts: unknown = typeof result === "object" && !Array.isArray(result) ? result : { level: result };
  checkFields(parts, { level: "anything", rest: "anything" }, SORT_KEY);
  const { level, rest } = parts as { level?: unknown; rest?: unknown };
  const levels = sortNumbers(level);
  const others = rest === undefined ? [] : sortNumbers(rest);
  if (levels === undefined || levels.length === 0 || others === undefined) reject(result, SORT_KEY);
  return { level: levels, rest: others };
}

/** The numbers of one part of a key; undefined where it is something else. */
function sortNumbers(part: unknown): bigint[] | undefined {
  const values: readonly unknown[] = Array.isArray(part) ? part : [part];
  if (values.length > MAX_NUMBERS) return undefined;
  const numbers = values.map((value) => {
    // A number beyond 2^53 may be another one than was meant.
    const whole = typeof value === "bigint" || Number.isSafeInteger(value);
    return whole ? BigInt(value as number | bigint) : undefined;
  });
  return numbers.every((value) => value !== undefined && BigInt.asIntN(64, value) === value)
    ? (numbers as bigint[])
    : undefined;
}

async function queueingHint(
  invoker: Invoker,
  request: QueueingHintRequest,
  turn: Turn,
): Promise<QueueingHintResponse> {
  invoker.requireConfiguration(request.configHash);
  const change: Change = {
    resource: request.event?.resource ?? "",
    actions: request.event?.actions ?? [],
    oldObject: decodeObject("old_json", request.oldJson),
    newObject: decodeObject("new_json", request.newJson),
  };
  const hints = [];
  for (const pod of request.pods) {
    const profile = pod.spec?.schedulerName ?? "";
    const config = invoker.configurations.getAny(request.configHash, profile);
    const context = invoker.contextFor(profile, config, turn);
    const helps = await invoker.call("queueingHint", async () => {
      const result: unknown = await invoker.plugin.queueingHint!(pod, change, context);
      return typeof result === "boolean" ? result : reject(result, "true or false");
    });
    hints.push(helps ? Hint.QUEUE : Hint.QUEUE_SKIP);
  }
  return { hints };
}

function decodeObject(field: string, json: Uint8Array): unknown {
  if (json.length === 0) return undefined;
  try {
    return JSON.parse(Buffer.from(json).toString("utf8"));
  } catch (error) {
    throw new CallError(status.INVALID_ARGUMENT, `${field}: ${String(error)}`);
  }
}
