// Also change: internal/trireme/sdk/result_checks.py (which names the other languages' files).
package dev.trireme.sdk;

/** A method returned what its extension point does not accept. */
final class InvalidResult extends RuntimeException {
  private static final long serialVersionUID = 1L;

  InvalidResult(String message) {
    super(message);
  }
}
