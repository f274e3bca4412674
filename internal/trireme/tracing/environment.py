"""Whether and how to trace, as OpenTelemetry's environment variables say.

The exporter reads its own variables (OTEL_EXPORTER_OTLP_*, OTEL_BSP_*). These decide whether it is imported at all.

Source: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/.

Tests: tests/unit/tracing/test_environment.py.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass

log = logging.getLogger(__name__)

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


@dataclass(frozen=True, slots=True)
class Settings:
    """`ratio` of the traces are sampled, from 0 to 1; `service` is the name of the process's service."""

    ratio: float
    service: str


def read(service: str, environment: Mapping[str, str] = os.environ) -> Settings | None:
    """The settings of a process; None: it does not trace. What is wrong is a warning, and the default holds.

    It traces where an endpoint is configured, or OTEL_TRACES_EXPORTER is `otlp`. `service` is the name without
    OTEL_SERVICE_NAME.
    """
    exporter = environment.get("OTEL_TRACES_EXPORTER", "")
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter == "none":
        return None
    if exporter not in ("", "otlp"):
        log.warning("OTEL_TRACES_EXPORTER: %r: must be otlp or none; there are no traces", exporter)
        return None
    if not exporter and not any(environment.get(name) for name in _ENDPOINTS):
        return None
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), "grpc")
    if protocol != "grpc":
        log.warning("OTEL_EXPORTER_OTLP_PROTOCOL: %r: must be grpc; there are no traces", protocol)
        return None
    return Settings(_ratio(environment), environment.get("OTEL_SERVICE_NAME") or service)


def _ratio(environment: Mapping[str, str]) -> float:
    """The ratio of traces that OTEL_TRACES_SAMPLER samples. Pods have no parents, so `parentbased_` changes nothing."""
    sampler = environment.get("OTEL_TRACES_SAMPLER", "")
    match sampler.removeprefix("parentbased_"):
        case "" | "always_on":
            return 1.0
        case "always_off":
            return 0.0
        case "traceidratio":
            argument = environment.get("OTEL_TRACES_SAMPLER_ARG") or "1"
            try:
                ratio = float(argument)
            except ValueError:
                ratio = -1.0
            if 0.0 <= ratio <= 1.0:
                return ratio
            log.warning("OTEL_TRACES_SAMPLER_ARG: %r: must be a number from 0 to 1; all traces are sampled", argument)
        case _:
            known = "always_on, always_off, traceidratio, or one of these after parentbased_"
            log.warning("OTEL_TRACES_SAMPLER: %r: must be %s; all traces are sampled until it is", sampler, known)
    return 1.0
