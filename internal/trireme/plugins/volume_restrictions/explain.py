"""The reasons of VolumeRestrictions' refusals in words.

The plugin's `filter.py` gives a reason its code and its parameters.

Tests: tests/unit/project/test_reason_texts.py.
"""

TEXTS = {"claimNotFound": "there is no claim {claim}"}
