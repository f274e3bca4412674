/** Serves QueueService with a plugin's preEnqueue and queueingHint. */
import { status } from "@grpc/grpc-js";
import type { Change } from "../calls.js";
import { CallError } from "../errors.js";
import {
  Hint,
  type PreEnqueueRequest,
  type PreEnqueueResponse,
  type QueueingHintRequest,
  type QueueingHintResponse,
  type QueueServiceServer,
} from "../generated/trireme/v1/queue.js";
import type { Invoker, Turn } from "../invoker.js";

/** The implementation of QueueService. */
export function queueService(invoker: Invoker): QueueServiceServer {
  return {
    preEnqueue: invoker.unary("PreEnqueue", ["preEnqueue"], (request: PreEnqueueRequest, turn) =>
      preEnqueue(invoker, request, turn),
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
    const result = await invoker.call("preEnqueue", () => invoker.plugin.preEnqueue!(pod, context));
    statuses.push(invoker.statusMessage(result));
  }
  return { statuses };
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
  const context = invoker.contextFor("", undefined, turn);
  const hints = [];
  for (const pod of request.pods) {
    const helps = await invoker.call("queueingHint", () => invoker.plugin.queueingHint!(pod, change, context));
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
