"""The reasons of NodeVolumeLimits' refusals in words."""

TEXTS = {"volumeLimit": "driver {driver}", "driverMissing": "driver {driver} is not installed"}
