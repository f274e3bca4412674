// Also change: internal/trireme/rpc/fencing.py (which names the other languages' files).
package dev.trireme.sdk;

import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;

/** gRPC errors that a caller acts on. */
final class Refusals {
  /** The trailing metadata that holds the reason. */
  private static final Metadata.Key<String> REASON =
      Metadata.Key.of("trireme-reason", Metadata.ASCII_STRING_MARSHALLER);

  private Refusals() {}

  static StatusRuntimeException staleEpoch(long epoch, String explanation) {
    String message = "epoch " + Long.toUnsignedString(epoch) + " is over: " + explanation
        + "; restart this process if the cluster was restored from a backup";
    return withReason("stale-epoch", message);
  }

  static StatusRuntimeException configMismatch(String plugin) {
    return withReason("config-mismatch", "config_hash: plugin " + plugin + " does not have this configuration");
  }

  static StatusRuntimeException of(Status code, String message) {
    return code.withDescription(message).asRuntimeException();
  }

  private static StatusRuntimeException withReason(String reason, String message) {
    Metadata trailers = new Metadata();
    trailers.put(REASON, reason);
    return Status.FAILED_PRECONDITION.withDescription(message).asRuntimeException(trailers);
  }
}
