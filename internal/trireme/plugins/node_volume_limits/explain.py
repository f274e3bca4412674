"""The reasons of NodeVolumeLimits's refusals.

The plugin's `filter.py` gives a reason its code and its parameters.

Tests: tests/unit/project/test_reason_codes.py.
"""

from trireme.framework.reason_codes import Kind, ReasonCode

REASONS = {
    "claimNotFound": ReasonCode(
        "A claim of the pod does not exist.", {"claim": Kind.CLAIM}, "there is no claim {claim}"
    ),
    "volumeLimit": ReasonCode(
        "The node has no place for another volume of the driver.", {"driver": Kind.DRIVER}, "driver {driver}"
    ),
    "driverMissing": ReasonCode(
        "The driver of a volume is not installed on the node.",
        {"driver": Kind.DRIVER},
        "driver {driver} is not installed",
    ),
}
