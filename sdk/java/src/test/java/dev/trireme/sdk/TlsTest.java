package dev.trireme.sdk;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.prometheus.metrics.model.registry.PrometheusRegistry;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Certificate files: what is wrong with them at the start, and what is in use after a change. */
final class TlsTest {
  @TempDir
  static Path made;
  @TempDir
  Path used;

  private final List<String> logged = new ArrayList<>();
  private final Handler collector = new Handler() {
    @Override
    public void publish(LogRecord entry) {
      logged.add(entry.getMessage() + " " + List.of(entry.getParameters()));
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
  };

  /** Makes an authority, two pairs by it, and files that are no certificates. openssl must be installed. */
  @BeforeAll
  static void makeFiles() throws Exception {
    String key = " -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes ";
    openssl("req -x509" + key + "-keyout ca.key -out ca.crt -days 2 -subj /CN=authority");
    for (String name : List.of("one", "two")) {
      openssl("req" + key + "-keyout " + name + ".key -out " + name + ".csr -subj /CN=" + name);
      openssl("x509 -req -in " + name + ".csr -CA ca.crt -CAkey ca.key -set_serial 7 -days 2 -out " + name + ".crt");
    }
    openssl("x509 -req -in one.csr -CA ca.crt -CAkey ca.key -set_serial 8 -days -1 -out expired.crt");
    openssl("req -newkey rsa:2048 -nodes -keyout rsa.key -out rsa.csr -subj /CN=rsa");
    Files.createFile(made.resolve("empty"));
    Files.writeString(made.resolve("text"), "no PEM\n");
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
  void releaseLog() {
    Logger.getLogger("trireme.plugin").removeHandler(collector);
  }

  private static PluginServer serve(String certificate, String key, String ca) throws IOException {
    Tls tls = new Tls(made.resolve(certificate), made.resolve(key), ca.isEmpty() ? null : made.resolve(ca));
    return PluginServer.start(new ServingTest.Passing(),
        new PluginServer.Options("127.0.0.1:0", tls, Set.of(), new PrometheusRegistry()));
  }

  @ParameterizedTest
  @CsvSource({
    "ca.crt, one.key, '', --tls-cert-file DIR/ca.crt and --tls-private-key-file DIR/one.key do not belong together",
    "one.crt, rsa.key, '', --tls-cert-file DIR/one.crt and --tls-private-key-file DIR/rsa.key do not belong together",
    "empty, one.key, '', --tls-cert-file: DIR/empty: has no PEM certificate",
    "text, one.key, '', --tls-cert-file: DIR/text: has no PEM certificate",
    "none, one.key, '', --tls-cert-file: DIR/none: no such file",
    "one.crt, empty, '', --tls-private-key-file: DIR/empty: has no PEM private key",
    "one.crt, one.crt, '', --tls-private-key-file: DIR/one.crt: has no PEM private key",
    "one.crt, none, '', --tls-private-key-file: DIR/none: no such file",
    "one.crt, one.key, empty, --client-ca-file: DIR/empty: has no PEM certificate",
    "one.crt, one.key, text, --client-ca-file: DIR/text: has no PEM certificate",
    "one.crt, one.key, none, --client-ca-file: DIR/none: no such file",
  })
  void aPluginDoesNotStartWithFilesThatCannotBeUsed(String certificate, String key, String ca, String problem) {
    var error = assertThrows(IllegalArgumentException.class, () -> serve(certificate, key, ca));
    String expected = problem.replace("DIR", made.toString());
    assertTrue(error.getMessage().startsWith(expected), error.getMessage() + " is not " + expected);
  }

  @Test
  void theHandleIsNotMadeWithACertificateAndTheKeyOfAnother() {
    HandleTls tls = new HandleTls(made.resolve("ca.crt"), made.resolve("one.crt"), made.resolve("two.key"));
    var error = assertThrows(IllegalArgumentException.class, () -> new Handle("127.0.0.1:1", "P", tls));
    assertTrue(error.getMessage().contains("do not belong together"), error.getMessage());
  }

  private void put(String from, String to) throws IOException {
    // As a new file, which differs from the one before also on a file system with coarse times.
    Files.deleteIfExists(used.resolve(to));
    Files.copy(made.resolve(from), used.resolve(to));
  }

  @Test
  void aPairThatDoesNotMatchLeavesThePairBeforeInUseUntilItMatches() throws Exception {
    put("one.crt", "tls.crt");
    put("one.key", "tls.key");
    List<String> inUse = new ArrayList<>();
    WatchedFiles files = new Tls(used.resolve("tls.crt"), used.resolve("tls.key"), null)
        .pair(pair -> inUse.add(pair.chain()[0].getSubjectX500Principal().getName()));
    put("two.crt", "tls.crt");
    files.poll();
    files.poll();
    assertEquals(List.of("CN=one"), inUse);
    assertEquals(1, logged.size(), logged::toString);
    assertTrue(logged.get(0).contains("those before stay in use"), logged::toString);
    assertTrue(logged.get(0).contains("tls.crt and --tls-private-key-file " + used.resolve("tls.key")), logged::toString);
    put("two.key", "tls.key");
    files.poll();
    assertEquals(List.of("CN=one", "CN=two"), inUse);
    put("empty", "tls.crt");
    files.poll();
    Files.delete(used.resolve("tls.crt"));
    files.poll();
    assertEquals(List.of("CN=one", "CN=two"), inUse);
    assertEquals(4, logged.size(), logged::toString);
  }

  @Test
  void aPluginOnAUnixSocketHasNoTlsAndReadsNoFiles() throws Exception {
    Path none = made.resolve("none");
    var options = new PluginServer.Options("unix:" + used.resolve("p.sock"),
        new Tls(none, none, none), Set.of("filter"), new PrometheusRegistry());
    try (PluginServer server = PluginServer.start(new ServingTest.Passing(), options);
        Handle handle = new Handle(server.address(), "P", new HandleTls(none, none, none))) {
      var error = assertThrows(StatusRuntimeException.class, () -> handle.activate(List.of()));
      assertEquals(Status.Code.UNIMPLEMENTED, error.getStatus().getCode(), error::toString); // it was let in
    }
  }

  @Test
  void anExpiredCertificateIsServedAndLogged() throws Exception {
    serve("expired.crt", "one.key", "").close();
    assertTrue(logged.stream().anyMatch(entry -> entry.contains("has expired") && entry.contains("expired.crt")),
        logged::toString);
    logged.clear();
    serve("one.crt", "one.key", "ca.crt").close();
    assertFalse(logged.stream().anyMatch(entry -> entry.contains("expired")), logged::toString);
  }
}
