// Also change: internal/trireme/rpc/fencing.py (which names the other languages' files).

/** Errors that end a call with a gRPC status. */
import { Metadata, type ServiceError, status } from "@grpc/grpc-js";

/** The trailing metadata that holds the reason of a refusal, which the caller acts on. */
export const REASON_METADATA = "trireme-reason";

/** A call that cannot be answered; it ends with this code. */
export class CallError extends Error {
  constructor(
    readonly code: status,
    message: string,
    readonly reason = "",
  ) {
    super(message);
    this.name = "CallError";
  }
}

/** A method returned what its extension point does not accept. */
export class InvalidResult extends Error {
  constructor(message: string) {
    super(message);
    this.name = "InvalidResult";
  }
}

/** The gRPC error that a call ends with. */
export function toServiceError(error: CallError): ServiceError {
  const metadata = new Metadata();
  if (error.reason) metadata.set(REASON_METADATA, error.reason);
  return Object.assign(new Error(error.message), { code: error.code, details: error.message, metadata });
}
