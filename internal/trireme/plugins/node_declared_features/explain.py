"""The reasons of NodeDeclaredFeatures' refusals in words.

The plugin's `filter.py` gives a reason its code and its parameters.

Tests: tests/unit/project/test_reason_texts.py.
"""

TEXTS = {"declaredFeatures": "needs {needed}"}
