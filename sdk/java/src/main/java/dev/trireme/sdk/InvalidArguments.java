// Also change: internal/trireme/sdk/configuring.py (which names the other languages' files).
package dev.trireme.sdk;

import java.util.List;
import java.util.stream.Collectors;

/** Thrown by configure: the scheduler refuses the configuration and shows these problems unchanged. */
public final class InvalidArguments extends RuntimeException {
  private static final long serialVersionUID = 1L;
  private final transient List<Problem> problems;

  /**
   * One mistake.
   *
   * @param field the path of the field, from {@code args} on
   * @param message what is wrong, in one line
   */
  public record Problem(String field, String message) {}

  /** All mistakes of one configuration. */
  public InvalidArguments(List<Problem> problems) {
    super(problems.stream().map(each -> each.field() + ": " + each.message()).collect(Collectors.joining(", ")));
    this.problems = List.copyOf(problems);
  }

  /** The mistakes. */
  public List<Problem> problems() {
    return problems;
  }
}
