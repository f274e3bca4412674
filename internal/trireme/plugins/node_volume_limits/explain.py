"""The reasons of NodeVolumeLimits's refusals."""

from trireme.framework.reason_codes import Kind, ReasonCode

REASONS = {
    "claimNotFound": ReasonCode("A claim of the pod does not exist; the message has its name."),
    "volumeLimit": ReasonCode(
        "The node has no place for another volume of the driver.", {"driver": Kind.DRIVER}, "driver {driver}"
    ),
    "driverMissing": ReasonCode(
        "The driver of a volume is not installed on the node.",
        {"driver": Kind.DRIVER},
        "driver {driver} is not installed",
    ),
}
