"""CEL selectors: what they say of a device, and what is said of those that are wrong, in kube-scheduler's words."""

import pytest

from trireme.framework import semver
from trireme.plugins.dynamic_resources import cel_values, expressions

HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional"
    " fields"
)

DEVICE = expressions.DeviceValues(
    "gpu.example.com",
    False,
    {
        "gpu.example.com": {
            "model": "a100",
            "index": 2,
            "healthy": True,
            "version": cel_values.of_version(semver.parse("1.6.0")),
            "links": ["a", "b"],
        },
        "dra.example.com": {"numa": 0},
    },
    {"gpu.example.com": {"memory": cel_values.quantity_of("40Gi")}},
)
OWN = 'device.attributes["gpu.example.com"]'
MEMORY = 'device.capacity["gpu.example.com"].memory'


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        pytest.param('device.driver == "gpu.example.com"', True, id="driver"),
        pytest.param("device.allowMultipleAllocations", False, id="shares"),
        pytest.param(f"{OWN}.healthy && {OWN}.index in [1, 2]", True, id="attributes"),
        pytest.param(f"{OWN}.?nosuch.orValue(9) < 3", False, id="optional"),
        pytest.param(f"has({OWN}.model) && !has({OWN}.nosuch)", True, id="has"),
        pytest.param('"nosuch" in device.attributes', False, id="a domain that it has not"),
        pytest.param('device.attributes["nosuch"].?x.orValue(1) == 1', True, id="an unknown domain is empty"),
        pytest.param('has(device.attributes["nosuch"].x)', False, id="nothing is in an unknown domain"),
        pytest.param(f'{MEMORY} == quantity("40960Mi")', True, id="equal amounts"),
        pytest.param(f'{MEMORY}.compareTo(quantity("40Gi")) == 0', True, id="compareTo"),
        pytest.param(f'{MEMORY}.isGreaterThan(quantity("40Gi"))', False, id="isGreaterThan"),
        pytest.param(f'{MEMORY}.sub(quantity("39Gi")).asInteger() == 1073741824', True, id="arithmetic"),
        pytest.param('quantity("1500m").isInteger()', False, id="isInteger"),
        pytest.param('isQuantity("1Xi") || sign(quantity("-1")) == -1', True, id="functions of quantities"),
        pytest.param(f'{OWN}.version.isLessThan(semver("1.10.0"))', True, id="versions are no texts"),
        pytest.param(f'{OWN}.version == semver("v1.6", true)', True, id="a version put right"),
        pytest.param(f"{OWN}.version.major() == 1 && {OWN}.version.minor() == 6", True, id="parts of a version"),
        pytest.param(f'{OWN}.links.exists(link, link == "b")', True, id="lists"),
        pytest.param('sets.contains(["a", "b"], ["b"])', True, id="sets"),
        pytest.param(f'{OWN}.model.find("[0-9]+") == "100"', True, id="regular expressions"),
        pytest.param(f"cel.bind(own, {OWN}, own.healthy && own.index == 2)", True, id="bind"),
        pytest.param(f'"x" == {OWN}.nosuch || true', True, id="an error that does not matter"),
    ],
)
def test_what_a_selector_says(expression: str, matches: bool) -> None:
    """The variables, types and functions that Kubernetes gives selectors: else a claim gets a wrong device, or none."""
    assert expressions.Expressions().matches(expression, DEVICE) is matches


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        pytest.param(f'{OWN}.nosuch == "x"', f"no such key: nosuch{HINT}", id="no attribute"),
        pytest.param('device.attributes["nosuch"].x == 1', f"no such key: x{HINT}", id="no domain"),
        pytest.param(
            f'{MEMORY.replace("memory", "nosuch")}.isLessThan(quantity("1"))',
            f"no such key: nosuch{HINT}",
            id="no capacity",
        ),
        pytest.param(f"{OWN}.model < 3", "no such overload", id="operator"),
        pytest.param(f"{OWN}.model.major() == 1", "no such overload: major(string)", id="function"),
        pytest.param(f"{OWN}.index / 0 == 1", "division by zero", id="division"),
        pytest.param(
            f"{OWN}.model",
            "CEL result of type string could not be converted to bool: "
            "unsupported native conversion from string to 'bool'",
            id="no truth value",
        ),
        pytest.param(
            'quantity("40x") == quantity("1")',
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="a malformed amount",
        ),
    ],
)
def test_what_is_said_where_there_is_no_answer(expression: str, text: str) -> None:
    """The text goes into the event of the pod."""
    with pytest.raises(expressions.EvaluationError) as failed:
        expressions.Expressions().matches(expression, DEVICE)
    assert str(failed.value) == text


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        pytest.param(
            "nosuch == 1",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nosuch' (in container '')\n"
            " | nosuch == 1\n | ^",
            id="unknown name",
        ),
        pytest.param(
            "device.driver < 3",
            "compilation failed: ERROR: <input>:1:15: found no matching overload for '_<_' applied to '(string, int)'\n"
            " | device.driver < 3\n | ..............^",
            id="wrong types",
        ),
        pytest.param("device.driver", "must evaluate to bool or the unknown type, not string", id="no truth value"),
    ],
)
def test_what_is_said_of_what_is_no_selector(expression: str, text: str) -> None:
    """A compile error is said in kube-scheduler's words, each time."""
    known = expressions.Expressions()
    for _ in range(2):
        with pytest.raises(expressions.CompileError) as failed:
            known.matches(expression, DEVICE)
        assert str(failed.value) == text
