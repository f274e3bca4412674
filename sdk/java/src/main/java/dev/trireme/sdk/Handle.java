// Also change: internal/trireme/sdk/handle.py (which names the other languages' files).
package dev.trireme.sdk;

import dev.trireme.v1.ActivateRequest;
import dev.trireme.v1.AllowRequest;
import dev.trireme.v1.PodIdentity;
import dev.trireme.v1.RejectRequest;
import io.grpc.CallOptions;
import io.grpc.ChannelCredentials;
import io.grpc.ConnectivityState;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.EventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.unix.DomainSocketAddress;
import io.grpc.stub.ClientCalls;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Requests of a plugin to the scheduler: allow or reject a waiting pod, and activate pods. */
public final class Handle implements AutoCloseable {
  private static final long DEADLINE_S = 5;

  private final String address;
  private final String plugin;
  private final EventLoopGroup loop;
  private final WatchedFiles files; // null: the credentials stay the same
  private ChannelCredentials read; // what the files have
  private ChannelCredentials used;
  private ManagedChannel channel;

  /** A client of the scheduler's frontend at {@code host:port} or {@code unix:/path}, for the plugin of this name. */
  public Handle(String address, String plugin) {
    this(address, plugin, InsecureChannelCredentials.create());
  }

  /** The same with TLS. */
  public Handle(String address, String plugin, ChannelCredentials credentials) {
    this(address, plugin, credentials, null);
  }

  /**
   * The same with TLS of files, which may be replaced meanwhile.
   *
   * @throws IllegalArgumentException a file cannot be used, or the key is not that of the certificate
   */
  public Handle(String address, String plugin, HandleTls tls) {
    this(address, plugin, InsecureChannelCredentials.create(), address.startsWith("unix:") ? null : tls);
  }

  private Handle(String address, String plugin, ChannelCredentials credentials, HandleTls tls) {
    this.address = address;
    this.plugin = plugin;
    loop = address.startsWith("unix:") ? new EpollEventLoopGroup(1) : null;
    read = credentials;
    files = tls == null ? null : new WatchedFiles(tls.files(), () -> read = tls.credentials());
    used = read;
    channel = open();
  }

  private ManagedChannel open() {
    if (loop == null) {
      return NettyChannelBuilder.forTarget(address, used).build();
    }
    Path socket = Address.parse(address).socket();
    return NettyChannelBuilder.forAddress(new DomainSocketAddress(socket.toString()), used)
        .eventLoopGroup(loop).channelType(EpollDomainSocketChannel.class).build();
  }

  /**
   * The channel for a request. One that is not connected, perhaps since the files before are refused, is replaced once they
   * have changed: gRPC itself would try again with those before, after two minutes at worst.
   */
  synchronized ManagedChannel current() {
    if (files == null) {
      return channel;
    }
    files.poll();
    if (read != used && channel.getState(false) != ConnectivityState.READY) {
      // By then its requests have ended.
      CompletableFuture.delayedExecutor(DEADLINE_S, TimeUnit.SECONDS).execute(channel::shutdownNow);
      used = read;
      channel = open();
    }
    return channel;
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
  public synchronized void close() {
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
    return ClientCalls.blockingUnaryCall(current(), rpc.method(), options, request);
  }
}
