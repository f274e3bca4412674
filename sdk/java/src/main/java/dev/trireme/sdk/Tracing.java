package dev.trireme.sdk;

import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;

/** Hands the W3C trace context of callers on to methods. */
final class Tracing {
  static final Metadata.Key<String> HEADER = Metadata.Key.of("traceparent", Metadata.ASCII_STRING_MARSHALLER);
  static final Context.Key<String> TRACE_PARENT = Context.key("trireme-traceparent");

  private Tracing() {}

  /** Puts the header of a call into its context. */
  static ServerInterceptor interceptor() {
    return new ServerInterceptor() {
      @Override
      public <I, O> ServerCall.Listener<I> interceptCall(
          ServerCall<I, O> call, Metadata headers, ServerCallHandler<I, O> next) {
        String header = headers.get(HEADER);
        if (header == null) {
          return next.startCall(call, headers);
        }
        return Contexts.interceptCall(Context.current().withValue(TRACE_PARENT, header), call, headers, next);
      }
    };
  }
}
