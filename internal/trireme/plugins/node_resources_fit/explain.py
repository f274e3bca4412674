"""The reasons of NodeResourcesFit's refusals in words."""

TEXTS = {"insufficientResource": "{asked} {resource} requested"}
