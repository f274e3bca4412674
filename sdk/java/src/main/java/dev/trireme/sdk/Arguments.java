// Also change: internal/trireme/sdk/configuring.py (which names the other languages' files).
package dev.trireme.sdk;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Function;

/**
 * Reads a profile's arguments. Each method reads one field, returns its default where it is missing or wrong, and
 * remembers what is wrong; {@link #finish} throws all of it at once, unknown fields included.
 */
public final class Arguments {
  private final JsonObject object;
  private final String path;
  private final List<InvalidArguments.Problem> problems;
  private final Set<String> known = new HashSet<>();
  private final List<Arguments> sections = new ArrayList<>();

  /** Reads the arguments of a configuration. */
  public Arguments(JsonElement args) {
    this(args, "args", new ArrayList<>());
  }

  private Arguments(JsonElement args, String path, List<InvalidArguments.Problem> problems) {
    this.path = path;
    this.problems = problems;
    if (args.isJsonObject()) {
      object = args.getAsJsonObject();
    } else {
      object = new JsonObject();
      problems.add(new InvalidArguments.Problem(path, "must be an object"));
    }
  }

  /** A text. */
  public String string(String name, String fallback) {
    return string(name, fallback, value -> null);
  }

  /** A text; {@code check} returns what is wrong with it, or null. */
  public String string(String name, String fallback, Function<String, String> check) {
    return read(name, fallback, value -> isString(value) ? null : "must be a text", JsonElement::getAsString, check);
  }

  /** A number within limits, both included. */
  public double number(String name, double fallback, double min, double max) {
    String message = "must be a number" + range(min, max);
    return read(name, fallback, value -> isNumber(value) ? null : message, JsonElement::getAsDouble,
        value -> value >= min && value <= max ? null : message);
  }

  /** A whole number within limits, both included. */
  public long integer(String name, long fallback, long min, long max) {
    String message = "must be a whole number" + range(min, max == Long.MAX_VALUE ? Double.MAX_VALUE : max);
    double number = read(name, (double) fallback, value -> isNumber(value) ? null : message, JsonElement::getAsDouble,
        value -> value == Math.rint(value) && value >= min && value <= max ? null : message);
    return (long) number;
  }

  /** True or false. */
  public boolean bool(String name, boolean fallback) {
    Function<JsonElement, String> check =
        value -> value.isJsonPrimitive() && value.getAsJsonPrimitive().isBoolean() ? null : "must be true or false";
    return read(name, fallback, check, JsonElement::getAsBoolean, value -> null);
  }

  /** The reader of an object within; of an empty one where it is missing. Its mistakes are reported by this one. */
  public Arguments section(String name) {
    known.add(name);
    JsonElement value = object.has(name) ? object.get(name) : new JsonObject();
    Arguments section = new Arguments(value, path + "." + name, problems);
    sections.add(section);
    return section;
  }

  /** The names of the fields that are there. */
  public Set<String> names() {
    return object.keySet();
  }

  /** Reports a mistake that a single field does not show. */
  public void reject(String name, String message) {
    problems.add(new InvalidArguments.Problem(path + "." + name, message));
  }

  /** Throws InvalidArguments if anything is wrong, or a field is unknown. */
  public void finish() {
    rejectUnknown();
    if (!problems.isEmpty()) {
      throw new InvalidArguments(problems);
    }
  }

  private void rejectUnknown() {
    for (String name : object.keySet()) {
      if (!known.contains(name)) {
        reject(name, "unknown field");
      }
    }
    sections.forEach(Arguments::rejectUnknown);
  }

  private <T> T read(
      String name,
      T fallback,
      Function<JsonElement, String> checkType,
      Function<JsonElement, T> convert,
      Function<T, String> check) {
    known.add(name);
    if (!object.has(name)) {
      return fallback;
    }
    JsonElement value = object.get(name);
    String problem = checkType.apply(value);
    if (problem == null) {
      T converted = convert.apply(value);
      problem = check.apply(converted);
      if (problem == null) {
        return converted;
      }
    }
    reject(name, problem);
    return fallback;
  }

  private static boolean isString(JsonElement value) {
    return value.isJsonPrimitive() && value.getAsJsonPrimitive().isString();
  }

  private static boolean isNumber(JsonElement value) {
    return value.isJsonPrimitive() && value.getAsJsonPrimitive().isNumber();
  }

  private static String range(double min, double max) {
    if (max == Double.MAX_VALUE || Double.isInfinite(max)) {
      return " of at least " + plain(min);
    }
    return " from " + plain(min) + " to " + plain(max);
  }

  private static String plain(double value) {
    return value == Math.rint(value) ? String.valueOf((long) value) : String.valueOf(value);
  }
}
