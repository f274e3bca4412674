// Also change: internal/trireme/sdk/values.py (which names the other languages' files).
package dev.trireme.sdk;

/** How the scheduler brings the plugin's scores into 0 to 100. */
public enum Normalization {
  /** They are in that range already. */
  NONE(dev.trireme.v1.Normalization.NORMALIZATION_NONE),
  /** Divided by the largest, times 100. */
  MAX(dev.trireme.v1.Normalization.NORMALIZATION_MAX),
  /** 100 minus MAX: the smallest score is best. */
  MAX_REVERSED(dev.trireme.v1.Normalization.NORMALIZATION_MAX_REVERSED);

  final dev.trireme.v1.Normalization message;

  Normalization(dev.trireme.v1.Normalization message) {
    this.message = message;
  }
}
