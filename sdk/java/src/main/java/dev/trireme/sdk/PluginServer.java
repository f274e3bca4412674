// Also change: internal/trireme/sdk/plugin_server.py (which names the other languages' files).
package dev.trireme.sdk;

import io.grpc.BindableService;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.ServerCallHandler;
import io.grpc.ServerCredentials;
import io.grpc.ServerServiceDefinition;
import io.grpc.ServiceDescriptor;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.netty.shaded.io.netty.channel.EventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollServerDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.unix.DomainSocketAddress;
import io.grpc.protobuf.services.HealthStatusManager;
import io.grpc.stub.ServerCalls;
import io.prometheus.metrics.model.registry.PrometheusRegistry;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/** A plugin that is served on one address: its extension points, the handshake, health and reflection. */
public final class PluginServer implements AutoCloseable {
  /** The largest message to or from a plugin, in bytes. */
  private static final int MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
  /** How long calls in flight may take when the server stops; below the 30 s that Kubernetes waits before SIGKILL. */
  private static final long GRACE_S = 20;

  private final Invoker invoker;
  private final HealthStatusManager health = new HealthStatusManager();
  private final List<EventLoopGroup> loops = new ArrayList<>();
  private final List<String> services = new ArrayList<>();
  private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(PluginServer::daemon);
  private final ExecutorService threads = Executors.newCachedThreadPool(PluginServer::daemon);
  private final Server server;
  private final Address address;

  /**
   * How a plugin is served.
   *
   * @param listen {@code host:port} (port 0: any free one) or {@code unix:/path}
   * @param tls null: none. Not used, nor are identities, on a Unix socket: its permissions say who may call
   * @param allowedIdentities names of callers' certificates that may call; empty: all that the client CA signed
   * @param registry where the metrics of calls go
   */
  public record Options(String listen, Tls tls, Set<String> allowedIdentities, PrometheusRegistry registry) {
    /** Without TLS, with metrics of its own. */
    public static Options listeningOn(String listen) {
      return new Options(listen, null, Set.of(), new PrometheusRegistry());
    }
  }

  private PluginServer(Plugin plugin, Options options) throws IOException {
    Description.of(plugin);
    address = Address.parse(options.listen());
    invoker = new Invoker(plugin, new Metrics(plugin.info().name(), options.registry()), timer);
    NettyServerBuilder builder = builder(options);
    definitions().forEach(definition -> {
      builder.addService(definition);
      services.add(definition.getServiceDescriptor().getName());
    });
    builder.addService(health.getHealthService());
    for (BindableService reflection : Reflection.services()) {
      builder.addService(reflection);
    }
    builder.intercept(Tracing.interceptor());
    if (!options.allowedIdentities().isEmpty() && address.socket() == null) {
      builder.intercept(Tls.identities(options.allowedIdentities()));
    }
    server = builder.build();
  }

  /**
   * Serves the plugin until it is closed.
   *
   * @throws IllegalArgumentException the plugin describes itself wrongly, or the address or a file cannot be used
   * @throws IOException the address cannot be listened on
   */
  public static PluginServer start(Plugin plugin, Options options) throws IOException {
    PluginServer made = new PluginServer(plugin, options);
    if (made.address.socket() != null) {
      made.address.clearSocket();
    }
    made.server.start();
    if (made.address.socket() != null) {
      // Anybody who can open the socket may call: restrict it to this user.
      Files.setPosixFilePermissions(made.address.socket(), PosixFilePermissions.fromString("rw-------"));
    }
    made.setHealth(ServingStatus.SERVING);
    return made;
  }

  /** The address, with the port that was chosen. */
  public String address() {
    return address.socket() != null ? address.text() : address.host() + ":" + server.getPort();
  }

  /** Refuses new calls, and waits for those in flight, at most 20 s. */
  @Override
  public void close() throws InterruptedException {
    setHealth(ServingStatus.NOT_SERVING);
    server.shutdown();
    if (invoker.follower != null) {
      invoker.follower.endStreams();
    }
    if (!server.awaitTermination(GRACE_S, TimeUnit.SECONDS)) {
      server.shutdownNow().awaitTermination(1, TimeUnit.SECONDS);
    }
    timer.shutdownNow();
    threads.shutdownNow();
    loops.forEach(loop -> loop.shutdownGracefully(0, 1, TimeUnit.SECONDS));
  }

  private void setHealth(ServingStatus status) {
    health.setStatus("", status);
    services.forEach(name -> health.setStatus(name, status));
  }

  private NettyServerBuilder builder(Options options) {
    ServerCredentials credentials = options.tls() == null || address.socket() != null
        ? InsecureServerCredentials.create() : options.tls().credentials(timer);
    NettyServerBuilder builder;
    if (address.socket() == null) {
      builder = NettyServerBuilder.forAddress(address.inet(), credentials);
    } else {
      loops.add(new EpollEventLoopGroup(1));
      loops.add(new EpollEventLoopGroup(2));
      builder = NettyServerBuilder.forAddress(new DomainSocketAddress(address.socket().toString()), credentials)
          .channelType(EpollServerDomainSocketChannel.class)
          .bossEventLoopGroup(loops.get(0))
          .workerEventLoopGroup(loops.get(1));
    }
    return builder
        .executor(threads)
        .maxInboundMessageSize(MAX_MESSAGE_BYTES)
        // Notices a caller that vanished without closing its connection; callers may ping idle streams as well.
        .keepAliveTime(45, TimeUnit.SECONDS)
        .keepAliveTimeout(15, TimeUnit.SECONDS)
        .permitKeepAliveTime(5, TimeUnit.SECONDS)
        .permitKeepAliveWithoutCalls(true);
  }

  private static Thread daemon(Runnable task) {
    Thread thread = new Thread(task, "trireme-plugin");
    thread.setDaemon(true);
    return thread;
  }

  private List<ServerServiceDefinition> definitions() {
    List<ServerServiceDefinition> out = new ArrayList<>();
    out.add(pluginService());
    Plugin plugin = invoker.plugin();
    if (plugin instanceof Plugin.PreEnqueue || plugin instanceof Plugin.QueueSort
        || plugin instanceof Plugin.QueueingHint) {
      out.add(queueService());
    }
    if (plugin instanceof Plugin.PreFilter || plugin instanceof Plugin.Filter
        || plugin instanceof Plugin.PostFilter || plugin instanceof Plugin.Reserve) {
      out.add(filterService());
    }
    if (plugin instanceof Plugin.PreScore || plugin instanceof Plugin.Score) {
      out.add(scoreService());
    }
    if (plugin instanceof Plugin.Permit || plugin instanceof Plugin.PreBind
        || plugin instanceof Plugin.Bind || plugin instanceof Plugin.PostBind) {
      out.add(bindService());
    }
    if (plugin instanceof Plugin.PlacementFeasible) {
      out.add(podGroupService());
    }
    if (invoker.follower != null) {
      out.add(new Definition().add(Rpcs.SYNC, ServerCalls.asyncBidiStreamingCall(invoker.follower::sync)).build());
    }
    return out;
  }

  private ServerServiceDefinition pluginService() {
    PluginHandlers handlers = new PluginHandlers(invoker);
    return new Definition()
        .add(Rpcs.GET_PLUGIN_INFO, invoker.unary(Rpcs.GET_PLUGIN_INFO, handlers::getPluginInfo))
        .add(Rpcs.CONFIGURE, invoker.unary(Rpcs.CONFIGURE, handlers::configure))
        .add(Rpcs.GET_PLUGIN_STATISTICS, invoker.unary(Rpcs.GET_PLUGIN_STATISTICS, handlers::getPluginStatistics))
        .build();
  }

  private ServerServiceDefinition queueService() {
    QueueHandlers handlers = new QueueHandlers(invoker);
    return new Definition()
        .add(Rpcs.PRE_ENQUEUE, invoker.unary(Rpcs.PRE_ENQUEUE, handlers::preEnqueue))
        .add(Rpcs.QUEUE_SORT, invoker.unary(Rpcs.QUEUE_SORT, handlers::queueSort))
        .add(Rpcs.QUEUEING_HINT, invoker.unary(Rpcs.QUEUEING_HINT, handlers::queueingHint))
        .build();
  }

  private ServerServiceDefinition filterService() {
    FilterHandlers handlers = new FilterHandlers(invoker);
    return new Definition()
        .add(Rpcs.PRE_FILTER, invoker.unary(Rpcs.PRE_FILTER, handlers::preFilter))
        .add(Rpcs.FILTER, invoker.unary(Rpcs.FILTER, handlers::filter))
        .add(Rpcs.FILTER_DRY_RUN, invoker.unary(Rpcs.FILTER_DRY_RUN, handlers::filterDryRun))
        .add(Rpcs.POST_FILTER, invoker.unary(Rpcs.POST_FILTER, handlers::postFilter))
        .add(Rpcs.RESERVE, invoker.unary(Rpcs.RESERVE, handlers::reserve))
        .add(Rpcs.UNRESERVE, invoker.unary(Rpcs.UNRESERVE, handlers::unreserve))
        .build();
  }

  private ServerServiceDefinition scoreService() {
    ScoreHandlers handlers = new ScoreHandlers(invoker);
    return new Definition()
        .add(Rpcs.PRE_SCORE, invoker.unary(Rpcs.PRE_SCORE, handlers::preScore))
        .add(Rpcs.SCORE, invoker.unary(Rpcs.SCORE, handlers::score))
        .add(Rpcs.SCORE_COPIES, invoker.unary(Rpcs.SCORE_COPIES, handlers::scoreCopies))
        .add(Rpcs.NORMALIZE_SCORE, invoker.unary(Rpcs.NORMALIZE_SCORE, handlers::normalizeScore))
        .build();
  }

  private ServerServiceDefinition bindService() {
    BindHandlers handlers = new BindHandlers(invoker);
    return new Definition()
        .add(Rpcs.PERMIT, invoker.unary(Rpcs.PERMIT, handlers::permit))
        .add(Rpcs.PRE_BIND_PRE_FLIGHT, invoker.unary(Rpcs.PRE_BIND_PRE_FLIGHT, handlers::preBindPreFlight))
        .add(Rpcs.PRE_BIND, invoker.unary(Rpcs.PRE_BIND, handlers::preBind))
        .add(Rpcs.BIND, invoker.streaming(Rpcs.BIND, handlers::bind))
        .add(Rpcs.POST_BIND, invoker.unary(Rpcs.POST_BIND, handlers::postBind))
        .build();
  }

  private ServerServiceDefinition podGroupService() {
    PodGroupHandlers handlers = new PodGroupHandlers(invoker);
    return new Definition()
        .add(Rpcs.PLACEMENT_FEASIBLE, invoker.unary(Rpcs.PLACEMENT_FEASIBLE, handlers::placementFeasible))
        .build();
  }

  /** A service under construction. */
  private static final class Definition {
    private final Map<Rpc<?, ?>, ServerCallHandler<?, ?>> handlers = new LinkedHashMap<>();

    <I extends com.google.protobuf.Message, O extends com.google.protobuf.Message> Definition add(
        Rpc<I, O> rpc, ServerCallHandler<I, O> handler) {
      handlers.put(rpc, handler);
      return this;
    }

    ServerServiceDefinition build() {
      var described = handlers.keySet().iterator().next().service();
      ServiceDescriptor.Builder service = ServiceDescriptor.newBuilder(described.getFullName())
          .setSchemaDescriptor(new Rpc.Schema(described));
      handlers.keySet().forEach(rpc -> service.addMethod(rpc.method()));
      ServerServiceDefinition.Builder out = ServerServiceDefinition.builder(service.build());
      handlers.forEach((rpc, handler) -> add(out, rpc, handler));
      return out.build();
    }

    @SuppressWarnings("unchecked") // `add` above has put each handler beside the RPC of its types
    private static <I, O> void add(
        ServerServiceDefinition.Builder out, Rpc<?, ?> rpc, ServerCallHandler<I, O> handler) {
      out.addMethod((io.grpc.MethodDescriptor<I, O>) rpc.method(), handler);
    }
  }
}
