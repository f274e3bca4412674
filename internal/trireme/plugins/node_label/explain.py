"""The reasons of NodeLabel's refusals in words."""

TEXTS = {"labelMissing": "has no label {label}", "labelForbidden": "has the label {label}"}
