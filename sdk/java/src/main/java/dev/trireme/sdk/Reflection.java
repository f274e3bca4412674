// Also change: internal/trireme/sdk/plugin_server.py (which names the other languages' files).
package dev.trireme.sdk;

import io.grpc.BindableService;
import io.grpc.protobuf.services.ProtoReflectionService;
import io.grpc.protobuf.services.ProtoReflectionServiceV1;
import java.util.List;

/** The reflection services, of both versions: grpcurl and others still use the first. */
final class Reflection {
  private Reflection() {}

  @SuppressWarnings("deprecation")
  static List<BindableService> services() {
    return List.of(ProtoReflectionServiceV1.newInstance(), ProtoReflectionService.newInstance());
  }
}
