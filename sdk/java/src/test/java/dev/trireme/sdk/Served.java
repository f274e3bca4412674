package dev.trireme.sdk;

import com.google.protobuf.ByteString;
import com.google.protobuf.Message;
import dev.trireme.v1.Cycle;
import dev.trireme.v1.NodeSelection;
import dev.trireme.v1.NodeView;
import dev.trireme.v1.PodIdentity;
import io.grpc.CallOptions;
import io.grpc.Deadline;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.ClientCalls;
import java.io.IOException;
import java.util.Iterator;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assertions;

/** A plugin that is served for a test, and calls of it. */
final class Served implements AutoCloseable {
  final PluginServer server;
  final ManagedChannel channel;

  Served(Plugin plugin) throws IOException {
    server = PluginServer.start(plugin, PluginServer.Options.listeningOn("127.0.0.1:0"));
    channel = NettyChannelBuilder.forTarget(server.address()).usePlaintext().build();
  }

  <I extends Message, O extends Message> O call(Rpc<I, O> rpc, I request) {
    return call(rpc, request, 20_000);
  }

  <I extends Message, O extends Message> O call(Rpc<I, O> rpc, I request, long deadlineMs) {
    return ClientCalls.blockingUnaryCall(channel, rpc.method(), options(deadlineMs), request);
  }

  <I extends Message, O extends Message> Iterator<O> stream(Rpc<I, O> rpc, I request) {
    return ClientCalls.blockingServerStreamingCall(channel, rpc.method(), options(20_000), request);
  }

  <I extends Message, O extends Message> StatusRuntimeException error(Rpc<I, O> rpc, I request) {
    return Assertions.assertThrows(StatusRuntimeException.class, () -> call(rpc, request));
  }

  private static CallOptions options(long deadlineMs) {
    return CallOptions.DEFAULT.withDeadline(Deadline.after(deadlineMs, TimeUnit.MILLISECONDS));
  }

  @Override
  public void close() throws InterruptedException {
    channel.shutdownNow();
    server.close();
  }

  static Cycle cycle(ByteString state) {
    return Cycle.newBuilder().setProfile("default-scheduler").setGeneration(3).setState(state).build();
  }

  static Cycle cycle() {
    return cycle(ByteString.EMPTY);
  }

  static NodeSelection nodes(String... names) {
    NodeSelection.Builder out = NodeSelection.newBuilder();
    for (String name : names) {
      out.addNodes(NodeView.newBuilder().setName(name));
    }
    return out.build();
  }

  static dev.trireme.v1.Placement placement(String name) {
    return dev.trireme.v1.Placement.newBuilder().setPod(identity(name)).setNodeName("a").build();
  }

  static dev.trireme.v1.BindItem item(String name, ByteString state) {
    return dev.trireme.v1.BindItem.newBuilder().setPod(identity(name)).setNodeName("a").setState(state).build();
  }

  private static PodIdentity identity(String name) {
    return PodIdentity.newBuilder().setNamespace("shop").setName(name).setUid("uid-" + name).build();
  }
}
