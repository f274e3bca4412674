"""The reasons of NodeDeclaredFeatures' refusals in words."""

TEXTS = {"declaredFeatures": "needs {needed}"}
