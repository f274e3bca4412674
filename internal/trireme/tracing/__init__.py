"""Traces by OpenTelemetry: contexts that calls pass on, spans, and their export."""
