/** Serves QueueService with a plugin's preEnqueue and queueingHint. */
import { status } from "@grpc/grpc-js";
import type { Change } from "../calls.js";
import { reject } from "../checks.js";
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
    statuses.push(
      await invoker.call("preEnqueue", async () => invoker.statusMessage(await invoker.plugin.preEnqueue!(pod, context))),
    );
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
