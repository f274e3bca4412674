// Also change: internal/trireme/framework/programs.py (the line by which a process says that it serves).
// Also change: internal/trireme/rpc/listen_flags.py (which names the other languages' files).
// Also change: internal/trireme/sdk/plugin_server.py (which names the other languages' files).
package dev.trireme.sdk;

import io.prometheus.metrics.exporter.httpserver.HTTPServer;
import io.prometheus.metrics.model.registry.PrometheusRegistry;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;

/** The command line of a plugin: address, certificates, callers, logs, metrics, and the author's own flags. */
public final class PluginMain {
  private static final List<Flag> FLAGS = List.of(
      new Flag("listen", "host:port or unix:/path", "127.0.0.1:0"),
      new Flag("tls-cert-file", "certificate to serve with; read again when it changes", ""),
      new Flag("tls-private-key-file", "its private key", ""),
      new Flag("client-ca-file", "CA that callers' certificates must be signed by", ""),
      new Flag("allowed-identities", "names of callers' certificates, comma-separated", ""),
      new Flag("handle-address", "where the scheduler serves its handle, for allow, reject and activate", ""),
      new Flag("handle-ca-file", "CA of the scheduler's handle; with it the certificate above is shown to it", ""),
      new Flag("metrics-listen", "host:port of Prometheus metrics; without it there are none", ""),
      new Flag("log-format", "text or json", "text"),
      new Flag("log-level", "debug, info, warn or error", "info"));

  private PluginMain() {}

  /**
   * A flag, which takes a text.
   *
   * @param name without the dashes
   * @param help one line
   * @param fallback its value where it is not given; empty: none
   */
  public record Flag(String name, String help, String fallback) {}

  /**
   * What a plugin may need when it is made.
   *
   * @param flags the values of all flags
   * @param handle the scheduler, with --handle-address; else null
   * @param registry for metrics of the plugin's own
   */
  public record Startup(Map<String, String> flags, Handle handle, PrometheusRegistry registry) {}

  /** Makes the plugin. One that is AutoCloseable is closed after the server has stopped. */
  public interface Factory {
    /** The plugin. */
    Plugin make(Startup startup) throws Exception;
  }

  /** A mistake in the command line. */
  private static final class UsageError extends Exception {
    private static final long serialVersionUID = 1L;

    UsageError(String message) {
      super(message);
    }
  }

  /** Serves the plugin until SIGTERM or SIGINT, as the other method does. */
  public static void run(Plugin plugin, String[] args) {
    run(plugin.info().name(), startup -> plugin, List.of(), args);
  }

  /**
   * Serves the plugin until SIGTERM or SIGINT, then exits with 0. An error is one line on stderr and exit code 1, a
   * wrong flag exit code 2.
   */
  public static void run(String name, Factory factory, List<Flag> ownFlags, String[] args) {
    List<Flag> flags = new java.util.ArrayList<>(FLAGS);
    flags.addAll(ownFlags);
    int code = 0;
    try {
      if (Arrays.asList(args).contains("--help") || Arrays.asList(args).contains("-h")) {
        System.out.print(usage(name, flags));
      } else {
        serve(name, factory, parse(flags, args));
      }
    } catch (UsageError error) {
      System.err.println(name + ": " + error.getMessage());
      code = 2;
    } catch (Exception | LinkageError error) {
      String message = error instanceof IllegalArgumentException || error instanceof IOException
          ? describe(error) : error.toString();
      System.err.println(name + ": " + message);
      code = 1;
    }
    System.out.flush();
    Runtime.getRuntime().halt(code);
  }

  private static String describe(Throwable error) {
    Throwable cause = error.getCause();
    return cause == null || cause.getMessage() == null || error.getMessage().contains(cause.getMessage())
        ? error.getMessage() : error.getMessage() + ": " + cause.getMessage();
  }

  private static void serve(String name, Factory factory, Map<String, String> flags) throws Exception {
    Log.configure(flags.get("log-format"), flags.get("log-level"));
    PrometheusRegistry registry = new PrometheusRegistry();
    PluginServer.Options options = options(flags, registry);
    CountDownLatch stop = new CountDownLatch(1);
    CountDownLatch stopped = new CountDownLatch(1);
    // A shutdown hook is how Java hears of SIGTERM; it has to wait until everything has ended.
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      stop.countDown();
      awaitQuietly(stopped);
    }));
    try (Handle handle = handle(name, flags)) {
      Plugin plugin = factory.make(new Startup(flags, handle, registry));
      if (!plugin.info().name().equals(name)) {
        throw new IllegalArgumentException("run is called for " + name + ", but the plugin is " + plugin.info().name());
      }
      try (PluginServer server = PluginServer.start(plugin, options);
          HTTPServer metrics = metrics(flags.get("metrics-listen"), registry)) {
        System.out.println("listening on " + server.address());
        System.out.flush();
        stop.await();
        Log.info("stopping: calls in flight may finish");
      }
      if (plugin instanceof AutoCloseable closeable) {
        closeable.close();
      }
    } catch (Exception error) {
      if (stop.getCount() > 0) {
        throw error;
      }
      Log.error("the plugin did not stop as it should", error);
    }
    Runtime.getRuntime().halt(0); // in the hook's place, which would end with the signal's exit code
  }

  private static void awaitQuietly(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }

  private static Handle handle(String name, Map<String, String> flags) {
    String address = flags.get("handle-address");
    if (address.isEmpty()) {
      return null;
    }
    if (flags.get("handle-ca-file").isEmpty()) {
      return new Handle(address, name);
    }
    String certificate = flags.get("tls-cert-file");
    return new Handle(address, name, new HandleTls(
        Path.of(flags.get("handle-ca-file")),
        certificate.isEmpty() ? null : Path.of(certificate),
        certificate.isEmpty() ? null : Path.of(flags.get("tls-private-key-file"))));
  }

  private static HTTPServer metrics(String listen, PrometheusRegistry registry) throws IOException {
    if (listen.isEmpty()) {
      return null;
    }
    Address address;
    try {
      address = Address.parse(listen);
    } catch (IllegalArgumentException error) {
      throw new IllegalArgumentException("--metrics-listen: " + listen + " is not host:port");
    }
    HTTPServer server = HTTPServer.builder()
        .inetAddress(InetAddress.getByName(address.inet().getHostString()))
        .port(address.port()).registry(registry).buildAndStart();
    Log.info("serving metrics", "address", address.host() + ":" + server.getPort());
    return server;
  }

  private static PluginServer.Options options(Map<String, String> flags, PrometheusRegistry registry)
      throws UsageError {
    String certificate = flags.get("tls-cert-file");
    String privateKey = flags.get("tls-private-key-file");
    String clientCa = flags.get("client-ca-file");
    Set<String> identities = Arrays.stream(flags.get("allowed-identities").split(","))
        .map(String::strip).filter(each -> !each.isEmpty()).collect(Collectors.toSet());
    if (certificate.isEmpty() != privateKey.isEmpty()) {
      throw new UsageError("--tls-cert-file and --tls-private-key-file need each other");
    }
    if (!clientCa.isEmpty() && certificate.isEmpty()) {
      throw new UsageError("--client-ca-file needs --tls-cert-file and --tls-private-key-file");
    }
    if (!identities.isEmpty() && clientCa.isEmpty()) {
      throw new UsageError("--allowed-identities needs --client-ca-file: without it no caller shows an identity");
    }
    Tls tls = certificate.isEmpty() ? null
        : new Tls(Path.of(certificate), Path.of(privateKey), clientCa.isEmpty() ? null : Path.of(clientCa));
    return new PluginServer.Options(flags.get("listen"), tls, identities, registry);
  }

  private static Map<String, String> parse(List<Flag> flags, String[] args) throws UsageError {
    Map<String, String> values = new LinkedHashMap<>();
    flags.forEach(flag -> values.put(flag.name(), flag.fallback()));
    for (int at = 0; at < args.length; at++) {
      String argument = args[at];
      String name = argument.startsWith("--") ? argument.substring(2).split("=", 2)[0] : "";
      if (!values.containsKey(name)) {
        throw new UsageError("unknown flag " + argument + "; --help lists the flags");
      }
      if (argument.contains("=")) {
        values.put(name, argument.split("=", 2)[1]);
      } else if (++at < args.length) {
        values.put(name, args[at]);
      } else {
        throw new UsageError(argument + " needs a value");
      }
    }
    requireOneOf(values, "log-format", List.of("text", "json"));
    requireOneOf(values, "log-level", List.of("debug", "info", "warn", "error"));
    return values;
  }

  private static void requireOneOf(Map<String, String> values, String name, List<String> allowed) throws UsageError {
    if (!allowed.contains(values.get(name))) {
      throw new UsageError("--" + name + ": \"" + values.get(name) + "\" is none of " + String.join(", ", allowed));
    }
  }

  private static String usage(String name, List<Flag> flags) {
    int width = flags.stream().mapToInt(flag -> flag.name().length()).max().orElse(0) + 4;
    StringBuilder out = new StringBuilder("The scheduler plugin " + name + ".\n\n");
    for (Flag flag : flags) {
      String fallback = flag.fallback().isEmpty() ? "" : " (default " + flag.fallback() + ")";
      out.append(String.format("  %-" + width + "s%s%s%n", "--" + flag.name(), flag.help(), fallback));
    }
    return out.toString();
  }
}
