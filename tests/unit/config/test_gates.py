"""Feature gates: names, stages, emulated versions, and what cannot be set."""

import pathlib
import re

import pytest

from tests.helpers import gates_document
from tests.helpers.config_starts import feature_gates
from trireme.config import gate_effects, gates
from trireme.config.gates import GateError, GateResult, GateStage
from trireme_kube.componentbase.cli import versions

REPOSITORY = pathlib.Path(__file__).parents[3]


def _from_flags(*texts: str, emulated: str = "", oldest: str = "") -> GateResult:
    return gates.from_flags((emulated,) if emulated else (), (oldest,) if oldest else (), {"": texts} if texts else {})


def test_a_gate_has_the_default_of_its_stage() -> None:
    enabled = feature_gates()
    known = gates.read_table()
    for name in known.gates:
        spec = known.at(name, enabled.effective)
        assert enabled.enabled(name) is spec.default
        if spec.stage is GateStage.ALPHA:
            assert not spec.default, name


def test_a_gate_can_be_set() -> None:
    assert not feature_gates().enabled("GenericWorkload")
    assert feature_gates(GenericWorkload=True).enabled("GenericWorkload")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("Bogus=true",), "unrecognized feature gate: Bogus"),
        (("DRAPreemption=true",), "unrecognized feature gate: DRAPreemption"),
        (("GenericWorkload",), "missing bool value for GenericWorkload"),
        (
            ("GenericWorkload=maybe",),
            'invalid value of GenericWorkload=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
    ],
    ids=["unknown", "of a later version", "no-value", "no-boolean"],
)
def test_a_gate_that_cannot_be_set_is_named(texts: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        _from_flags(*texts)


def test_a_locked_gate_cannot_be_changed_but_confirmed() -> None:
    known, effective = gates.read_table(), versions.effective((), ())
    name = next(name for name in known.gates if known.at(name, effective).locked)
    default = known.at(name, effective).default
    with pytest.raises(GateError, match=f"cannot set feature gate {name} to .*, feature is locked to"):
        gates.set_gates({name: not default}, effective)
    assert gates.set_gates({name: default}, effective).gates.enabled(name) is default


def test_a_gate_that_needs_another_is_refused_without_it() -> None:
    known = gates.read_table()
    name, needs = next((name, needs) for name, needs in known.dependencies.items() if not feature_gates().enabled(name))
    asked = {name: True, **dict.fromkeys(needs, False)}
    with pytest.raises(GateError, match=f"{name} is enabled, but depends on features that are disabled"):
        gates.set_gates(asked, versions.effective((), ()))


def test_an_emulated_version_brings_its_own_defaults() -> None:
    today, before = feature_gates(), _from_flags(emulated="1.37").gates
    assert today.effective.emulated == (1, 38)
    assert before.effective.emulated == (1, 37)
    assert {name for name in gates.read_table().gates if today.enabled(name) != before.enabled(name)}


def test_all_alpha_sets_gates_not_set_by_name() -> None:
    known, effective = gates.read_table(), versions.effective((), ())
    alphas = [name for name in known.gates if known.at(name, effective).stage is GateStage.ALPHA and name != "AllAlpha"]
    free = [name for name in alphas if name not in known.dependencies and not _needed(name)]
    enabled = gates.set_gates({free[0]: False, "AllAlpha": True, "GenericWorkload": True}, effective).gates
    assert not enabled.enabled(free[0])
    assert all(enabled.enabled(name) for name in free[1:])


def _needed(name: str) -> bool:
    return any(name in needs for needs in gates.read_table().dependencies.values())


@pytest.mark.parametrize(
    ("emulated", "oldest", "message"),
    [
        ("1.12", "", "1.12"),
        ("1.39", "", "1.39"),
        ("x", "", "x"),
        ("other=1.38", "", "other"),
    ],
    ids=["too-old", "too-new", "malformed", "another-component"],
)
def test_a_version_that_cannot_be_emulated_is_refused(emulated: str, oldest: str, message: str) -> None:
    try:
        problems = _from_flags(emulated=emulated, oldest=oldest).gates.effective.problems()
    except ValueError as error:
        problems = [str(error)]
    assert message in "".join(problems)


def test_setting_a_gate_without_effect_is_a_warning() -> None:
    """A gate that is accepted and ignored in silence is a promise broken."""
    assert not list(gate_effects.warnings(feature_gates()))
    assert list(gate_effects.warnings(feature_gates(ClientsAllowCARotation=False))) == [
        "feature gate ClientsAllowCARotation=false has no effect: certificate files are read again when they change"
    ]
    assert not list(gate_effects.warnings(feature_gates(ClientsAllowCARotation=True)))
    everything = feature_gates(AllAlpha=True, GenericWorkload=True)
    warned = {text.split("=")[0].removeprefix("feature gate ") for text in gate_effects.warnings(everything)}
    rows = gate_effects.rows_by_gate()
    alpha = {gate for gate in rows if gates.read_table().at(gate, versions.DEFAULT).stage is GateStage.ALPHA}
    assert warned == {gate for gate in alpha if rows[gate].ineffective is True}


def test_every_gate_is_in_the_table_once() -> None:
    """Every gate has exactly one row that says what it does here."""
    known = gates.read_table()
    free = {gate for gate in known.gates if not known.at(gate, versions.DEFAULT).locked}
    listed = [gate for section in gate_effects.SECTIONS for row in section.rows for gate in row.gates]
    everybody = [*listed, *gate_effects.OF_OTHERS, *gate_effects.OF_STAGES]
    assert len(everybody) == len(set(everybody))
    assert set(everybody) == free


def test_only_what_is_not_heeded_names_a_value() -> None:
    for gate, row in gate_effects.rows_by_gate().items():
        assert (row.ineffective is not None) == (row.effect is gate_effects.Effect.INEFFECTIVE), gate
        assert row.text or row.effect is gate_effects.Effect.IMPLEMENTED, gate


def test_code_reads_every_implemented_gate() -> None:
    source = "".join(
        path.read_text()
        for path in (REPOSITORY / "internal").rglob("*.py")
        if path.name != "gate_effects.py" and not path.name.endswith("_pb2.py")
    )
    for gate, row in gate_effects.rows_by_gate().items():
        asked = f'"{gate}"' in source
        assert asked or row.effect is not gate_effects.Effect.IMPLEMENTED, f"{gate} is said to be obeyed"


def test_the_document_is_that_of_the_table() -> None:
    """docs/feature-gates.md is where somebody looks who comes from kube-scheduler."""
    assert gates_document.write() == gates_document.DOCUMENT.read_text(), "run `make docs`"
