package dev.trireme.sdk;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.trireme.v1.AllowRequest;
import dev.trireme.v1.AllowResponse;
import dev.trireme.v1.PodIdentity;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsServerCredentials;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A plugin that runs for longer than its certificate must still let pods go. */
final class HandleTlsTest {
  private static final PodIdentity POD = PodIdentity.newBuilder().setName("a").build();

  @TempDir
  static Path made;
  @TempDir
  Path used;

  private final List<Server> servers = new ArrayList<>();
  private final List<String> warnings = new ArrayList<>();
  private final Handler collector = new Handler() {
    @Override
    public void publish(LogRecord entry) {
      if (entry.getLevel() == Level.WARNING) {
        warnings.add(entry.getMessage() + " " + List.of(entry.getParameters()));
      }
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
  };

  /** Makes two authorities, and a pair by each for 127.0.0.1. openssl must be installed. */
  @BeforeAll
  static void makeFiles() throws Exception {
    String key = " -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes ";
    Files.writeString(made.resolve("names"), "subjectAltName=IP:127.0.0.1");
    for (String name : List.of("before", "after")) {
      String ca = name + "-ca";
      String tls = name + "-tls";
      openssl("req -x509" + key + "-keyout " + ca + ".key -out " + ca + ".crt -days 2 -subj /CN=" + name);
      openssl("req" + key + "-keyout " + tls + ".key -out " + tls + ".csr -subj /CN=" + name);
      openssl("x509 -req -in " + tls + ".csr -CA " + ca + ".crt -CAkey " + ca + ".key -set_serial 7 -days 2"
          + " -extfile names -out " + tls + ".crt");
    }
  }

  private static void openssl(String arguments) throws Exception {
    List<String> command = new ArrayList<>(List.of(("openssl " + arguments).split(" +")));
    Process process = new ProcessBuilder(command).directory(made.toFile()).redirectErrorStream(true).start();
    String output = new String(process.getInputStream().readAllBytes());
    assertEquals(0, process.waitFor(), output);
  }

  @BeforeEach
  void collectLog() {
    Logger.getLogger("trireme.plugin").addHandler(collector);
  }

  @AfterEach
  void release() {
    Logger.getLogger("trireme.plugin").removeHandler(collector);
    servers.forEach(Server::shutdownNow);
  }

  /** A frontend that allows every pod, with the name's pair, to callers of the name's authority. */
  private Server frontend(String name, int port) throws IOException {
    var credentials = TlsServerCredentials.newBuilder()
        .keyManager(made.resolve(name + "-tls.crt").toFile(), made.resolve(name + "-tls.key").toFile())
        .trustManager(made.resolve(name + "-ca.crt").toFile())
        .clientAuth(TlsServerCredentials.ClientAuth.REQUIRE).build();
    var service = ServerServiceDefinition.builder("trireme.v1.HandleService")
        .addMethod(Rpcs.ALLOW.method(), ServerCalls.asyncUnaryCall(HandleTlsTest::allow)).build();
    Server server = NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", port), credentials)
        .addService(service).build().start();
    servers.add(server);
    return server;
  }

  private static void allow(AllowRequest request, StreamObserver<AllowResponse> answer) {
    answer.onNext(AllowResponse.getDefaultInstance());
    answer.onCompleted();
  }

  private void put(String name, String... ends) throws IOException {
    for (String end : ends) {
      // As a new file, which differs from the one before also on a file system with coarse times.
      Files.deleteIfExists(used.resolve(end));
      Files.copy(made.resolve(name + "-" + end), used.resolve(end));
    }
  }

  private Handle handle(int port) {
    return new Handle("127.0.0.1:" + port, "P",
        new HandleTls(used.resolve("ca.crt"), used.resolve("tls.crt"), used.resolve("tls.key")));
  }

  /** Waits until it is connected: the first handshake of a process may take longer than a request, on a busy machine. */
  private static void connect(ManagedChannel channel) throws InterruptedException {
    for (var state = channel.getState(true); state != ConnectivityState.READY; state = channel.getState(true)) {
      CountDownLatch changed = new CountDownLatch(1);
      channel.notifyWhenStateChanged(state, changed::countDown);
      assertTrue(changed.await(1, TimeUnit.MINUTES), "it stays " + state);
    }
  }

  @Test
  void theHandleUsesAnAuthorityCertificateAndKeyThatWereReplaced() throws Exception {
    put("before", "ca.crt", "tls.crt", "tls.key");
    Server server = frontend("before", 0);
    int port = server.getPort();
    try (Handle handle = handle(port)) {
      ManagedChannel first = handle.current();
      connect(first);
      assertTrue(handle.allow(POD));
      put("after", "tls.crt");
      assertTrue(handle.allow(POD));
      assertTrue(handle.allow(POD));
      assertEquals(1, warnings.size(), warnings::toString);
      assertTrue(warnings.get(0).contains("those before stay in use"), warnings::toString);
      assertTrue(warnings.get(0).contains("do not belong together"), warnings::toString);
      put("after", "ca.crt", "tls.key");
      assertTrue(handle.allow(POD));
      assertSame(first, handle.current(), "the open connection goes on, since its server has not changed yet");
      CountDownLatch ended = new CountDownLatch(1);
      first.notifyWhenStateChanged(ConnectivityState.READY, ended::countDown);
      server.shutdownNow().awaitTermination();
      assertTrue(ended.await(1, TimeUnit.MINUTES));
      frontend("after", port);
      assertTrue(handle.allow(POD));
      assertNotSame(first, handle.current());
    }
  }

  @Test
  void theHandleUsesReplacedFilesAtOnceAfterConnectionsThatWereRefused() throws Exception {
    int port = frontend("after", 0).getPort();
    put("before", "ca.crt", "tls.crt", "tls.key");
    try (Handle handle = handle(port)) {
      for (int attempt = 0; attempt < 3; attempt++) {
        assertThrows(StatusRuntimeException.class, () -> handle.allow(POD));
      }
      put("after", "ca.crt", "tls.crt", "tls.key");
      assertTrue(handle.allow(POD));
    }
  }
}
