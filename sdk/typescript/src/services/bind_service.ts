// Also change: internal/trireme/sdk/binding.py (which names the other languages' files).

/** Serves BindPlugin with a plugin's permit, preBind, bind and postBind. */
import type {
  BindItem as BindItemMessage,
  BindPluginServer,
  BindRequest,
  BindResponse,
  PermitRequest,
  PermitResponse,
  PermitResult as PermitResultMessage,
  PostBindRequest,
  PostBindResponse,
  PreBindPreFlightRequest,
  PreBindPreFlightResponse,
  PreBindRequest,
  PreBindResponse,
  PreBindResult as PreBindResultMessage,
} from "../generated/trireme/v1/bind.js";
import { PermitResult, PreBindResult } from "../generated/trireme/v1/bind.js";
import { PodIdentity } from "../generated/trireme/v1/cycle.js";
import { Code } from "../generated/trireme/v1/status.js";
import { checkFields } from "../checks.js";
import { InvalidResult } from "../errors.js";
import type { Call } from "../calls.js";
import type { Invoker, Turn } from "../invoker.js";
import type { BindItem, PreBindWait, Result } from "../plugin.js";
import { Status, Wait } from "../results.js";

const SKIPPING = "nothing, SKIP, or a status";
const PRE_BIND = "nothing, SKIP, a status, or an object of {waitFor, timeoutSeconds, message, state}";
const PRE_BIND_FIELDS = { waitFor: "array", timeoutSeconds: "number", message: "string", state: "anything" } as const;

type AnyCall = Call<any, any>;

/** The implementation of BindPlugin. */
export function bindService(invoker: Invoker): BindPluginServer {
  const service = new BindService(invoker);
  return {
    permit: invoker.unary("Permit", ["permit"], service.permit),
    preBindPreFlight: invoker.unary("PreBindPreFlight", ["preBind"], service.preBindPreFlight),
    preBind: invoker.unary("PreBind", ["preBind"], service.preBind),
    bind: invoker.streaming("Bind", ["bind"], service.bind),
    postBind: invoker.unary("PostBind", ["postBind"], service.postBind),
  };
}

class BindService {
  constructor(private readonly invoker: Invoker) {}

  readonly permit = async (request: PermitRequest, turn: Turn): Promise<PermitResponse> => {
    const call = await this.invoker.callFor(request.cycle, turn);
    const results: PermitResultMessage[] = [];
    for (const item of request.items) {
      results.push(await this.invoker.call("permit", () => this.permitOne(call, this.item(item))));
    }
    return { results };
  };

  readonly preBindPreFlight = async (
    request: PreBindPreFlightRequest,
    turn: Turn,
  ): Promise<PreBindPreFlightResponse> => {
    const call = await this.invoker.callFor(request.cycle, turn);
    const { plugin } = this.invoker;
    const statuses = [];
    for (const item of request.items) {
      // Without the method there is work for every pod: only preBind itself knows better.
      const answer = async () =>
        this.invoker.statusMessage(await plugin.preBindPreFlight?.(call, this.item(item)), SKIPPING);
      statuses.push(await this.invoker.call("preBindPreFlight", answer));
    }
    return { statuses };
  };

  readonly preBind = async (request: PreBindRequest, turn: Turn): Promise<PreBindResponse> => {
    const call = await this.invoker.callFor(request.cycle, turn);
    const results: PreBindResultMessage[] = [];
    for (const item of request.items) {
      results.push(await this.invoker.call("preBind", () => this.preBindOne(call, this.item(item))));
    }
    return { results };
  };

  readonly bind = async (request: BindRequest, turn: Turn, write: (response: BindResponse) => void): Promise<void> => {
    const call = await this.invoker.callFor(request.cycle, turn);
    for (const [index, item] of request.items.entries()) {
      const answer = async () =>
        this.invoker.statusMessage(await this.invoker.plugin.bind!(call, this.item(item)), SKIPPING);
      write({ results: [{ index, status: await this.invoker.call("bind", answer) }] });
    }
  };

  readonly postBind = async (request: PostBindRequest, turn: Turn): Promise<PostBindResponse> => {
    const call = await this.invoker.callFor(request.cycle, turn);
    for (const item of request.items) {
      await this.invoker.call("postBind", () => this.invoker.plugin.postBind!(call, this.item(item)));
    }
    return {};
  };

  private async permitOne(call: AnyCall, item: BindItem<any>): Promise<PermitResultMessage> {
    const result = await this.invoker.plugin.permit!(call, item);
    if (!(result instanceof Wait)) {
      return PermitResult.fromPartial({ status: this.invoker.statusMessage(result, "nothing, a status, or wait(seconds)") });
    }
    return PermitResult.fromPartial({
      status: this.waiting(result.message),
      timeout: duration(result.seconds),
    });
  }

  private async preBindOne(call: AnyCall, item: BindItem<any>): Promise<PreBindResultMessage> {
    const result: Result | PreBindWait<any> = await this.invoker.plugin.preBind!(call, item);
    if (result === undefined || result instanceof Status) {
      return PreBindResult.fromPartial({ status: this.invoker.statusMessage(result, PRE_BIND) });
    }
    checkFields(result, PRE_BIND_FIELDS, PRE_BIND);
    if (!(result.waitFor?.length > 0) || !(result.timeoutSeconds > 0)) {
      throw new InvalidResult("returned a wait without an object in waitFor, or without timeoutSeconds above 0");
    }
    return PreBindResult.fromPartial({
      status: this.waiting(result.message ?? ""),
      waitFor: [...result.waitFor],
      timeout: duration(result.timeoutSeconds),
      state: this.invoker.encode(result.state),
    });
  }

  private waiting(message: string) {
    return new Status(Code.WAIT, message ? [message] : []).toMessage(this.invoker.name);
  }

  private item(message: BindItemMessage): BindItem<any> {
    return {
      pod: message.pod ?? PodIdentity.create(),
      nodeName: message.nodeName,
      assumed: message.assumed,
      state: message.state.length > 0 ? this.invoker.decode("item.state", message.state) : undefined,
      outcomeUnknown: message.outcomeUnknown,
    };
  }
}

/** The most seconds that a message of Duration may have: 10,000 years. */
const MOST_SECONDS = 315_576_000_000;

/** The duration, above 0 as what it is made of, and at most what the message may have: Infinity is as long as possible. */
function duration(seconds: number): { seconds: bigint; nanos: number } {
  const limited = Math.min(seconds, MOST_SECONDS);
  const whole = Math.floor(limited);
  const nanos = Math.min(Math.round((limited - whole) * 1e9), 999_999_999);
  return { seconds: BigInt(whole), nanos: whole === 0 ? Math.max(nanos, 1) : nanos };
}
