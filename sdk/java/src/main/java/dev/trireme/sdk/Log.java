// Also change: internal/trireme/sdk/logs.py (which names the other languages' files).
package dev.trireme.sdk;

import com.google.gson.Gson;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.logging.ConsoleHandler;
import java.util.logging.Formatter;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/**
 * Structured logs on stderr, one line an entry, as text or as JSON. They go through {@code java.util.logging}, as
 * gRPC's do.
 */
public final class Log {
  private static final Logger LOGGER = Logger.getLogger("trireme.plugin");
  /** It warns of each connection on a Unix socket, for which gRPC sets an option that such sockets do not have. */
  private static final Logger BOOTSTRAP =
      Logger.getLogger("io.grpc.netty.shaded.io.netty.bootstrap.ServerBootstrap");
  private static final Map<String, Level> LEVELS =
      Map.of("debug", Level.FINE, "info", Level.INFO, "warn", Level.WARNING, "error", Level.SEVERE);

  private Log() {}

  /** Writes an entry; the fields are names and values in turn. */
  public static void info(String message, Object... fields) {
    write(Level.INFO, message, null, fields);
  }

  /** Writes an entry about something that is odd. */
  public static void warn(String message, Object... fields) {
    write(Level.WARNING, message, null, fields);
  }

  /** Writes an entry about a failure, with its stack trace. */
  public static void error(String message, Throwable error, Object... fields) {
    write(Level.SEVERE, message, error, fields);
  }

  private static void write(Level level, String message, Throwable error, Object... fields) {
    if (!LOGGER.isLoggable(level)) {
      return;
    }
    LogRecord entry = new LogRecord(level, message);
    entry.setLoggerName(LOGGER.getName());
    entry.setParameters(fields);
    entry.setThrown(error);
    LOGGER.log(entry);
  }

  /** Sets format (text or json) and level (debug, info, warn or error) of all logs of the process. */
  static void configure(String format, String level) {
    Logger root = Logger.getLogger("");
    for (Handler handler : root.getHandlers()) {
      root.removeHandler(handler);
    }
    ConsoleHandler console = new ConsoleHandler();
    console.setLevel(Level.ALL);
    console.setFormatter(format.equals("json") ? new JsonLines() : new TextLines());
    root.addHandler(console);
    root.setLevel(LEVELS.get(level));
    BOOTSTRAP.setLevel(Level.SEVERE);
  }

  private static Map<String, Object> fieldsOf(LogRecord entry) {
    Map<String, Object> fields = new LinkedHashMap<>();
    Object[] values = entry.getParameters();
    // Only entries of this class have names and values in turn.
    if (values != null && entry.getLoggerName() != null && entry.getLoggerName().equals(LOGGER.getName())) {
      for (int at = 0; at + 1 < values.length; at += 2) {
        fields.put(String.valueOf(values[at]), values[at + 1]);
      }
    }
    return fields;
  }

  private static String stackOf(Throwable error) {
    StringWriter text = new StringWriter();
    error.printStackTrace(new PrintWriter(text));
    return text.toString().stripTrailing();
  }

  /** One JSON object a line. */
  static final class JsonLines extends Formatter {
    private final Gson gson = new Gson();

    @Override
    public String format(LogRecord entry) {
      Map<String, Object> object = new LinkedHashMap<>();
      object.put("time", Instant.ofEpochMilli(entry.getMillis()).toString());
      object.put("level", entry.getLevel().getName().toLowerCase(java.util.Locale.ROOT));
      object.put("message", formatMessage(entry));
      fieldsOf(entry).forEach((name, value) ->
          object.put(name, value instanceof Number || value instanceof Boolean ? value : String.valueOf(value)));
      if (entry.getThrown() != null) {
        object.put("error", stackOf(entry.getThrown()));
      }
      return gson.toJson(object) + "\n";
    }
  }

  /** Time, level, message, and fields as name=value. */
  static final class TextLines extends Formatter {
    private final Gson gson = new Gson();

    @Override
    public String format(LogRecord entry) {
      StringBuilder line = new StringBuilder()
          .append(Instant.ofEpochMilli(entry.getMillis())).append(' ')
          .append(entry.getLevel().getName().charAt(0)).append(' ')
          .append(formatMessage(entry));
      fieldsOf(entry).forEach((name, value) -> line.append(' ').append(name).append('=').append(quote(value)));
      if (entry.getThrown() != null) {
        line.append(" error=").append(gson.toJson(stackOf(entry.getThrown())));
      }
      return line.append('\n').toString();
    }

    private String quote(Object value) {
      String text = String.valueOf(value);
      return text.matches("[\\w./:@-]+") ? text : gson.toJson(text);
    }
  }
}
