"""The reasons of NodeLabel's refusals in words.

The plugin's `filter.py` gives a reason its code and its parameters.

Tests: tests/unit/project/test_reason_texts.py.
"""

TEXTS = {"labelMissing": "has no label {label}", "labelForbidden": "has the label {label}"}
