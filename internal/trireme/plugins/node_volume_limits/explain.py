"""The reasons of NodeVolumeLimits' refusals in words; they name the driver, and no numbers."""

TEXTS = {"volumeLimit": "driver {driver}", "driverMissing": "driver {driver} is not installed"}
