package dev.trireme.sdk;

import dev.trireme.v1.ActivateRequest;
import dev.trireme.v1.AllowRequest;
import dev.trireme.v1.PodIdentity;
import dev.trireme.v1.RejectRequest;
import io.grpc.CallOptions;
import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsChannelCredentials;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.EventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.unix.DomainSocketAddress;
import io.grpc.stub.ClientCalls;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Requests of a plugin to the scheduler: allow or reject a waiting pod, and activate pods. */
public final class Handle implements AutoCloseable {
  private static final long DEADLINE_S = 5;

  private final String plugin;
  private final ManagedChannel channel;
  private final EventLoopGroup loop;

  /** A client of the scheduler's frontend at {@code host:port} or {@code unix:/path}, for the plugin of this name. */
  public Handle(String address, String plugin) {
    this(address, plugin, InsecureChannelCredentials.create());
  }

  /** The same with TLS. */
  public Handle(String address, String plugin, ChannelCredentials credentials) {
    this.plugin = plugin;
    if (address.startsWith("unix:")) {
      Path socket = Address.parse(address).socket();
      loop = new EpollEventLoopGroup(1);
      channel = NettyChannelBuilder.forAddress(new DomainSocketAddress(socket.toString()), credentials)
          .eventLoopGroup(loop).channelType(EpollDomainSocketChannel.class).build();
    } else {
      loop = null;
      channel = NettyChannelBuilder.forTarget(address, credentials).build();
    }
  }

  static ChannelCredentials tls(String ca, String certificate, String privateKey) throws IOException {
    PemFiles.certificates("--handle-ca-file", Path.of(ca));
    TlsChannelCredentials.Builder out = TlsChannelCredentials.newBuilder().trustManager(new java.io.File(ca));
    if (!certificate.isEmpty()) {
      PemFiles.pair(Path.of(certificate), Path.of(privateKey));
      out.keyManager(new java.io.File(certificate), new java.io.File(privateKey));
    }
    return out.build();
  }

  /** Ends this plugin's wait on permit for the pod; false if the pod does not wait. */
  public boolean allow(PodIdentity pod) {
    return unlessNotFound(Rpcs.ALLOW, AllowRequest.newBuilder().setPod(pod).setPlugin(plugin).build());
  }

  /** Rejects a pod that waits on permit; false if the pod does not wait. */
  public boolean reject(PodIdentity pod, String message) {
    RejectRequest request = RejectRequest.newBuilder().setPod(pod).setPlugin(plugin).setMessage(message).build();
    return unlessNotFound(Rpcs.REJECT, request);
  }

  /**
   * Moves pods to the active queue at once, also during their back-off; returns those that are tried next. Left out are
   * pods that are unknown, and those that an in-tree preEnqueue plugin or their group holds back.
   */
  public List<PodIdentity> activate(Collection<PodIdentity> pods) {
    return call(Rpcs.ACTIVATE, ActivateRequest.newBuilder().addAllPods(pods).build()).getActivatedList();
  }

  @Override
  public void close() {
    channel.shutdownNow();
    if (loop != null) {
      loop.shutdownGracefully(0, 1, TimeUnit.SECONDS);
    }
  }

  private <I extends com.google.protobuf.Message> boolean unlessNotFound(Rpc<I, ?> rpc, I request) {
    try {
      call(rpc, request);
      return true;
    } catch (StatusRuntimeException error) {
      if (error.getStatus().getCode() == Status.Code.NOT_FOUND) {
        return false;
      }
      throw error;
    }
  }

  private <I extends com.google.protobuf.Message, O extends com.google.protobuf.Message> O call(
      Rpc<I, O> rpc, I request) {
    CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(DEADLINE_S, TimeUnit.SECONDS);
    return ClientCalls.blockingUnaryCall(channel, rpc.method(), options, request);
  }
}
