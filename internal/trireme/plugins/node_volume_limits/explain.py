"""The reasons of NodeVolumeLimits' refusals in words; they name the driver, and no numbers.

The plugin's `filter.py` gives a reason its code and its parameters.

Tests: tests/unit/project/test_reason_texts.py.
"""

TEXTS = {"volumeLimit": "driver {driver}", "driverMissing": "driver {driver} is not installed"}
