"""What the variables of OpenTelemetry turn on."""

import logging

import pytest

from trireme.tracing import environment

ON = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_SERVICE_NAME": "mine"},
        {**ON, "OTEL_SDK_DISABLED": "true"},
        {**ON, "OTEL_TRACES_EXPORTER": "none"},
        {**ON, "OTEL_TRACES_EXPORTER": "zipkin"},
        {**ON, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
    ],
)
def test_there_is_no_tracing(variables: dict[str, str]) -> None:
    assert environment.read("trireme-filter", variables) is None


@pytest.mark.parametrize(
    "variables", [ON, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:1"}, {"OTEL_TRACES_EXPORTER": "otlp"}]
)
def test_all_traces_are_sampled_by_default(variables: dict[str, str]) -> None:
    assert environment.read("trireme-filter", variables) == environment.Settings(1.0, "trireme-filter")


def test_the_name_of_the_service_can_be_replaced() -> None:
    found = environment.read("trireme-filter", {**ON, "OTEL_SERVICE_NAME": "mine"})
    assert found is not None
    assert found.service == "mine"


@pytest.mark.parametrize(
    ("sampler", "argument", "ratio"),
    [
        ("always_off", "", 0.0),
        ("parentbased_always_on", "", 1.0),
        ("traceidratio", "0.01", 0.01),
        ("parentbased_traceidratio", "0.5", 0.5),
        ("traceidratio", "", 1.0),
    ],
)
def test_samplers(sampler: str, argument: str, ratio: float) -> None:
    variables = {**ON, "OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": argument}
    found = environment.read("s", variables)
    assert found is not None
    assert found.ratio == ratio


@pytest.mark.parametrize(
    ("sampler", "argument", "named"),
    [
        ("traceidratio", "2", "OTEL_TRACES_SAMPLER_ARG: '2'"),
        ("traceidratio", "x", "OTEL_TRACES_SAMPLER_ARG: 'x'"),
        ("jaeger_remote", "", "OTEL_TRACES_SAMPLER: 'jaeger_remote'"),
    ],
)
def test_a_wrong_sampler_is_a_warning(
    sampler: str, argument: str, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The specification has programs start all the same, with the default."""
    with caplog.at_level(logging.WARNING):
        found = environment.read("s", {**ON, "OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": argument})
    assert found is not None
    assert found.ratio == 1.0
    assert named in caplog.text
