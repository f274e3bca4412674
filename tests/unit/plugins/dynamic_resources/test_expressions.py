"""CEL selectors: their answers about a device, and kube-scheduler's errors for wrong ones."""

import pytest

from trireme.plugins.dynamic_resources import expressions
from trireme_kube.apimachinery import semver
from trireme_kube.cel.library import quantities_and_versions

HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional"
    " fields"
)

DEVICE = expressions.cel_device(
    "gpu.example.com",
    False,
    {
        "gpu.example.com": {
            "model": "a100",
            "index": 2,
            "healthy": True,
            "version": semver.parse("1.6.0"),
            "links": ["a", "b"],
        },
        "dra.example.com": {"numa": 0},
    },
    {"gpu.example.com": {"memory": quantities_and_versions.quantity_of("40Gi")}},
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
        pytest.param(
            "has(device.driver) && has(device.attributes) && has(device.allowMultipleAllocations)",
            True,
            id="has a field",
        ),
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
        pytest.param('"baaac".findAll("a*") == ["", "aaa", ""]', True, id="no empty match behind a match"),
        pytest.param('"ab12cd34".findAll("[0-9]", 3) == ["1", "2", "3"]', True, id="so many matches"),
        pytest.param('"ab".findAll("[a-z]", 0) == [] && "ab".findAll("[a-z]", -1).size() == 2', True, id="no limit"),
        pytest.param("[1, 3].sum() == 4 && [1.5, 2.0].sum() == 3.5 && [].sum() == 0", True, id="sum"),
        pytest.param("[1, 3].min() == 1 && [1, 3].max() == 3 && [1.5].max() == 1.5", True, id="min and max"),
        pytest.param('["b", "a"].min() == "a" && [false, true].max() && [b"a", b"b"].max() == b"b"', True, id="order"),
        pytest.param('["a", "b", "b"].isSorted() && [].isSorted() && ![2.0, 1.0].isSorted()', True, id="isSorted"),
        pytest.param('[dyn(1), dyn("a"), dyn(0)].isSorted()', True, id="what has no order is sorted"),
        pytest.param("[1, 2, 2, 3].indexOf(2) == 1 && [1, 2, 2, 3].lastIndexOf(2) == 2", True, id="indexOf"),
        pytest.param('[1.0].indexOf(1.1) == -1 && [].lastIndexOf("x") == -1', True, id="at no index"),
        pytest.param(
            "[dyn(true), dyn(1)].indexOf(1) == 1 && [dyn(1), dyn(1.0)].lastIndexOf(1) == 1", True, id="what is equal"
        ),
        pytest.param('"abcb".indexOf("b") == 1 && "abcb".lastIndexOf("b") == 3', True, id="indexOf of a text"),
        pytest.param(f'{OWN}.links.max() == "b" && {OWN}.links.indexOf("b") == 1', True, id="an attribute's list"),
        pytest.param(f'{OWN}.links.includes("b") && {OWN}.model.includes("a100")', True, id="includes"),
        pytest.param(f'{OWN}.links.includes("c") || {OWN}.model.includes("a")', False, id="does not include"),
        pytest.param("[3, 1, 2].sort() == [1, 2, 3] && [1, 1, 2].distinct() == [1, 2]", True, id="sort and distinct"),
        pytest.param("lists.range(4).slice(1, 3).reverse() == [2, 1]", True, id="slices"),
        pytest.param("[[[1]], [[2], [3]]].flatten(2) == [1, 2, 3]", True, id="flatten"),
        pytest.param("[-3, 1, 2].sortBy(each, -each) == [2, 1, -3]", True, id="sortBy"),
        pytest.param(f'{OWN}.all(name, value, name != "x")', True, id="comprehensions of two variables"),
        pytest.param("[1, 2].transformList(at, each, at + each) == [1, 3]", True, id="transformList"),
        pytest.param('"%s has %d".format(["x", 3]) == "x has 3"', True, id="format of texts"),
        pytest.param(f"cel.bind(own, {OWN}, own.healthy && own.index == 2)", True, id="bind"),
        pytest.param(f'"x" == {OWN}.nosuch || true', True, id="an error that does not matter"),
    ],
)
def test_results_of_selectors(expression: str, matches: bool) -> None:
    """The variables, types and functions that Kubernetes gives selectors: else a claim gets a wrong device, or none."""
    assert expressions.CompiledExpressions().matches(expression, DEVICE) is matches


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
        pytest.param(f"{OWN}.model.max() == 1", "no such overload: max(string)", id="a text is no list"),
        pytest.param('dyn([{"a": 1}]).max() == 1', "no such overload: max(list)", id="elements without order"),
        pytest.param("[].min() == 1", "min called on empty list", id="the least of nothing"),
        pytest.param("dyn([]).max() == 1", "max called on empty list", id="the greatest of nothing"),
        pytest.param("[9223372036854775807, 1].sum() == 1", "integer overflow", id="too large a sum"),
        pytest.param('[dyn(1), dyn("a")].sum() == 1', "no such overload", id="a sum of unlike elements"),
        pytest.param(
            "[1, 2].slice(1, 0) == []",
            "cannot slice(1, 0), start index must be less than or equal to end index",
            id="a slice that ends before it starts",
        ),
        pytest.param(
            '[dyn("d"), dyn(3)].sort() == []', "list elements must have the same type", id="sort of unlike elements"
        ),
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
def test_runtime_errors_have_the_message_of_kube_scheduler(expression: str, text: str) -> None:
    """The text goes into the event of the pod."""
    with pytest.raises(expressions.DeviceExpressionError) as failed:
        expressions.CompiledExpressions().matches(expression, DEVICE)
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
        pytest.param(
            '["a"].sum() == 0',
            "compilation failed: ERROR: <input>:1:10: found no matching overload for 'sum' applied to "
            "'list(string).()'\n"
            ' | ["a"].sum() == 0\n | .........^',
            id="a sum of texts",
        ),
        pytest.param(
            "device.nosuch == 1",
            "compilation failed: ERROR: <input>:1:7: undefined field 'nosuch'\n | device.nosuch == 1\n | ......^",
            id="a field that devices have not",
        ),
        pytest.param(
            "cel.bind(own, device, own.nosuch && own.none)",
            "compilation failed: ERROR: <input>:1:26: undefined field 'nosuch'\n"
            " | cel.bind(own, device, own.nosuch && own.none)\n | .........................^\n"
            "ERROR: <input>:1:40: undefined field 'none'\n"
            " | cel.bind(own, device, own.nosuch && own.none)\n | .......................................^",
            id="such fields of what is bound to the device",
        ),
        pytest.param(
            'device["driver"] == "x"',
            "compilation failed: ERROR: <input>:1:7: found no matching overload for '_[_]' applied to "
            '\'(kubernetes.DRADevice, string)\'\n | device["driver"] == "x"\n | ......^',
            id="a device is no map",
        ),
        pytest.param(
            f"{MEMORY} == 1",
            "compilation failed: ERROR: <input>:1:43: found no matching overload for '_==_' applied to "
            f"'(kubernetes.Quantity, int)'\n | {MEMORY} == 1\n | {'.' * 42}^",
            id="an amount is no number",
        ),
        pytest.param(
            "device.attributes",
            "must evaluate to bool or the unknown type, not map(string, map(string, dyn))",
            id="a map of maps",
        ),
        pytest.param("device.driver", "must evaluate to bool or the unknown type, not string", id="no truth value"),
    ],
)
def test_compile_errors_have_the_message_of_kube_scheduler(expression: str, text: str) -> None:
    """A compile error is said in kube-scheduler's words, each time."""
    known = expressions.CompiledExpressions()
    for _ in range(2):
        with pytest.raises(expressions.CompileError) as failed:
            known.matches(expression, DEVICE)
        assert str(failed.value) == text
