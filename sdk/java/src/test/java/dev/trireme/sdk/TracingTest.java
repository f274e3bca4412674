package dev.trireme.sdk;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.trireme.v1.FilterRequest;
import dev.trireme.v1.FilterResponse;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.Metadata;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import org.junit.jupiter.api.Test;

/** The trace of a caller, as a plugin's spans join it. */
final class TracingTest {
  /** Refuses every node with the trace of its caller. */
  static final class Traced implements Plugin.Filter {
    @Override
    public Info info() {
      return Info.of("Traced");
    }

    @Override
    public Verdict filter(Call call, Node node) {
      return Status.unschedulable("trace " + call.traceParent());
    }
  }

  @Test
  void aCallHasTheTraceOfItsCaller() throws Exception {
    Metadata headers = new Metadata();
    headers.put(Tracing.HEADER, "00-0a-0b-01");
    try (Served served = new Served(new Traced())) {
      Channel traced = ClientInterceptors.intercept(
          served.channel, MetadataUtils.newAttachHeadersInterceptor(headers));
      assertEquals("trace null", messageOf(served.channel));
      assertEquals("trace 00-0a-0b-01", messageOf(traced));
    }
  }

  private static String messageOf(Channel channel) {
    FilterRequest request =
        FilterRequest.newBuilder().setCycle(Served.cycle()).setNodes(Served.nodes("a")).setCount(1).build();
    FilterResponse response =
        ClientCalls.blockingUnaryCall(channel, Rpcs.FILTER.method(), CallOptions.DEFAULT, request);
    return response.getColumns().getStatuses(0).getMessages(0);
  }
}
