"""JSON and YAML as Kubernetes' readers take them, with their messages; and what we write, read by them."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trireme_kube.apimachinery import json_document, yaml_document
from trireme_kube.apimachinery.json_document import MalformedJSONError, Number, Object
from trireme_kube.apimachinery.yaml_document import MalformedYAMLError
from trireme_kube.apimachinery.yaml_writer import write_yaml


def _read(text: str) -> object:
    return json_document.plain(yaml_document.parse(text.encode()).node)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("a: yes", {"a": True}, id="yes-is-true"),
        pytest.param("a: off", {"a": False}, id="off-is-false"),
        pytest.param("a: 'yes'", {"a": "yes"}, id="quoted-is-text"),
        pytest.param("a: 0x10", {"a": 16}, id="hexadecimal"),
        pytest.param("a: 010", {"a": 8}, id="octal"),
        pytest.param("a: 0b11", {"a": 3}, id="binary"),
        pytest.param("a: 1_000", {"a": 1000}, id="underscores"),
        pytest.param("a: ~", {"a": None}, id="tilde-is-null"),
        pytest.param("a: 1.5", {"a": 1.5}, id="float"),
        pytest.param("a: 18446744073709551615", {"a": 2**64 - 1}, id="largest-integer"),
        pytest.param("a: 18446744073709551616", {"a": 18446744073709552000}, id="beyond-it-is-a-float"),
        pytest.param("a: " + "9" * 5_000, {"a": "9" * 5_000}, id="beyond-a-float-is-text"),
        pytest.param("a: -" + "9" * 5_000, {"a": "-" + "9" * 5_000}, id="the-same-with-a-sign"),
        pytest.param("1: x", {"1": "x"}, id="number-as-key"),
        pytest.param("true: x", {"true": "x"}, id="boolean-as-key"),
        pytest.param("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}, id="alias"),
        pytest.param(
            "a: &x {b: 1, d: 2}\nc: {<<: *x, b: 3}", {"a": {"b": 1, "d": 2}, "c": {"b": 3, "d": 2}}, id="merge"
        ),
        pytest.param("a: |\n  x\n  y\n", {"a": "x\ny\n"}, id="block"),
        pytest.param("a: 1\n---\nb: 2", {"a": 1}, id="first-document"),
        pytest.param("# nothing", None, id="empty"),
    ],
)
def test_yaml_is_read_as_kubernetes_reads_it(text: str, value: object) -> None:
    assert _read(text) == value


def test_duplicate_keys_are_reported_with_their_lines() -> None:
    document = yaml_document.parse(b"a: 1\nb:\n  c: 1\n  c: 2\na: 3\n")
    lines = document.duplicates.splitlines()
    assert lines[0] == "yaml: unmarshal errors:"
    assert sorted(line.strip() for line in lines[1:]) == [
        'line 4: key "c" already set in map',
        'line 5: key "a" already set in map',
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: b: c", "yaml: mapping values are not allowed in this context", id="two-colons"),
        pytest.param("a: [1", "yaml: line 1: did not find expected ',' or ']'", id="open-list"),
        pytest.param("a: *x", "yaml: unknown anchor 'x' referenced", id="unknown-anchor"),
        pytest.param("a:\n\t- b", "yaml: line 2: found character that cannot start any token", id="tab"),
    ],
)
def test_malformed_yaml_is_refused_in_known_words(text: str, message: str) -> None:
    with pytest.raises(MalformedYAMLError) as caught:
        yaml_document.parse(text.encode())
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("{", "unexpected end of JSON input", id="unfinished"),
        pytest.param('{"a" 1}', "invalid character '1' after object key", id="no-colon"),
        pytest.param("[1,]", "invalid character ']' looking for beginning of value", id="comma-at-the-end"),
        pytest.param("{} x", "invalid character 'x' after top-level value", id="more-after-it"),
        pytest.param('"\x01"', "invalid character '\\x01' in string", id="control-character"),
        pytest.param("01", "invalid character '1' after top-level value", id="leading-zero"),
        pytest.param("truth", "invalid character 't' in literal true (expecting 'e')", id="literal"),
        pytest.param("tru", "unexpected end of JSON input", id="unfinished-literal"),
        pytest.param('{"a": -}', "invalid character '}' in numeric literal", id="no-digit"),
        pytest.param("[1.]", "invalid character ']' in numeric literal", id="no-fraction"),
        pytest.param("1e+x", "invalid character 'x' in numeric literal", id="no-exponent"),
        pytest.param("é", "invalid character 'é' looking for beginning of value", id="no-ascii"),
        pytest.param('"a\\x"', "invalid escape sequence `\\x` in string", id="escape"),
        pytest.param('"a\\\x01"', 'invalid escape sequence "\\\\\\x01" in string', id="escape-of-a-control-character"),
        pytest.param('"a\\é"', 'invalid escape sequence "\\\\\\xc3" in string', id="escape-cut-into-bytes"),
        pytest.param('"\\u12g4"', "invalid escape sequence `\\u12g4` in string", id="unicode"),
        pytest.param('"\\ud800\\u1"', 'invalid escape sequence `\\u1"` in string', id="second-of-a-pair"),
        pytest.param('"\\u12', "unexpected end of JSON input", id="unfinished-unicode"),
        pytest.param('"abc', "unexpected end of JSON input", id="unfinished-string"),
        pytest.param("[1", "unexpected end of JSON input", id="unfinished-array"),
    ],
)
def test_malformed_json_is_refused_in_known_words(text: str, message: str) -> None:
    with pytest.raises(MalformedJSONError) as caught:
        json_document.parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["", "tru", "-", "1e+", '"a\\', '"\\u12', '{"a":'])
def test_the_first_of_several_values_ends_as_the_stream_does(text: str) -> None:
    """Go's Decoder, which HTTP extenders are read with, answers each with the end of the stream."""
    with pytest.raises(MalformedJSONError) as caught:
        json_document.parse_first_value(text)
    assert str(caught.value) == "unexpected end of JSON input"


def test_json_keeps_duplicates_and_numbers_as_written() -> None:
    node = json_document.parse('{"a": 1.0e2, "a": "1"}')
    assert isinstance(node, Object)
    assert node.members == (("a", Number("1.0e2")), ("a", "1"))
    assert isinstance(node.members[0][1], Number)
    assert not isinstance(node.members[1][1], Number)


_TEXTS = st.one_of(
    st.text(alphabet=st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12),
    st.sampled_from(
        ["y", "NO", "~", "null", "1e3", "0o17", "0x1F", "1_0", ".inf", "<<", "=", "2001-01-01", "-", "1:30", ""]
    ),
)
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), _TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXTS, inner, max_size=3)),
    max_leaves=8,
)


@given(st.dictionaries(_TEXTS, _VALUES, max_size=4))
def test_written_yaml_is_read_back_by_us_and_by_others(document: dict[str, object]) -> None:
    text = write_yaml(document)
    assert json_document.plain(yaml_document.parse(text.encode()).node) == document
    assert yaml.safe_load(text) == document
