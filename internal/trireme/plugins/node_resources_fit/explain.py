"""The reasons of NodeResourcesFit's refusals in words.

The plugin's `filter.py` gives a reason its code and its parameters.

Tests: tests/unit/project/test_reason_texts.py.
"""

TEXTS = {"insufficientResource": "{asked} {resource} requested"}
