"""Command lines: syntax, values, help; every message as its users know it."""

import pytest

from trireme.config import command_flags
from trireme.config.command_flags import OLD_FLAGS, advice_for_unknown_flag
from trireme.queueing import scheduling_queue
from trireme_kube.apimachinery.golang import Duration
from trireme_kube.componentbase.cli import flag_values, flags
from trireme_kube.componentbase.cli.flags import FlagError, Parsed


def _parse(*arguments: str) -> Parsed:
    return flags.parse(command_flags.flag_set(), arguments)


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        pytest.param(["--config=f"], "config", "f", id="equals"),
        pytest.param(["--config", "f"], "config", "f", id="next"),
        pytest.param(["--config="], "config", "", id="empty"),
        pytest.param(["--config", "--leader-elect"], "config", "--leader-elect", id="next-is-taken-as-it-is"),
        pytest.param(["--leader-elect"], "leader-elect", True, id="bare-boolean"),
        pytest.param(["--leader-elect=F"], "leader-elect", False, id="boolean"),
        pytest.param(["--leader_elect=false"], "leader-elect", False, id="underscore"),
        pytest.param(["--secure-port=0x10"], "secure-port", 16, id="hexadecimal"),
        pytest.param(["-v", "4"], "v", 4, id="letter"),
        pytest.param(["-v4"], "v", 4, id="letter-and-value"),
        pytest.param(["-v=4"], "v", 4, id="letter-equals"),
        pytest.param(["--v=1", "--v=2"], "v", 2, id="last-wins"),
        pytest.param(["--leader-elect-retry-period=1m"], "leader-elect-retry-period", Duration.of(60), id="duration"),
        pytest.param(
            ["--disabled-metrics=a,b", "--disabled-metrics=c"], "disabled-metrics", ("a", "b", "c"), id="list-grows"
        ),
        pytest.param(["--disabled-metrics="], "disabled-metrics", (), id="empty-list"),
        pytest.param(
            ["--requestheader-group-headers=a"], "requestheader-group-headers", ("a",), id="default-is-replaced"
        ),
        pytest.param(['--disabled-metrics="a,b",c'], "disabled-metrics", ("a,b", "c"), id="quoted-comma"),
        pytest.param(
            ["--feature-gates=A=true,kube:B=false"],
            "feature-gates",
            {"": ("A=true",), "kube": ("B=false",)},
            id="gates-by-component",
        ),
        pytest.param(["--bind-address=::1"], "bind-address", "::1", id="address"),
        pytest.param(["--version"], "version", "true", id="bare-version"),
    ],
)
def test_flags_are_read(arguments: list[str], name: str, value: object) -> None:
    """Each form of a flag is parsed to the right type."""
    assert _parse(*arguments)[name] == value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bogus"], "unknown flag: --bogus"),
        (["--bogus_flag=3"], "unknown flag: --bogus_flag"),
        (["---config"], "bad flag syntax: ---config"),
        (["--=x"], "bad flag syntax: --=x"),
        (["--config"], "flag needs an argument: --config"),
        (["-v"], "flag needs an argument: 'v' in -v"),
        (["-x"], "unknown shorthand flag: 'x' in -x"),
        (["-hx"], "unknown shorthand flag: 'x' in -x"),
        (
            ["--leader-elect=maybe"],
            'invalid argument "maybe" for "--leader-elect" flag: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        (
            ["--secure-port=x"],
            'invalid argument "x" for "--secure-port" flag: strconv.ParseInt: parsing "x": invalid syntax',
        ),
        (
            ["--kube-api-burst=3000000000"],
            'invalid argument "3000000000" for "--kube-api-burst" flag: strconv.ParseInt: parsing "3000000000": '
            "value out of range",
        ),
        (
            ["--leader-elect-retry-period=5"],
            'invalid argument "5" for "--leader-elect-retry-period" flag: time: missing unit in duration "5"',
        ),
        (["--bind-address=x"], 'invalid argument "x" for "--bind-address" flag: failed to parse IP: "x"'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_invalid_flags_have_the_message_of_kube_scheduler(arguments: list[str], message: str) -> None:
    with pytest.raises(FlagError) as caught:
        _parse(*arguments)
    assert str(caught.value) == message


def test_arguments_and_everything_after_two_dashes_are_positional() -> None:
    assert _parse("a", "--v=2", "b", "--", "--config").positional == ("a", "b", "--config")


def test_a_pod_stays_parked_in_the_queue_for_as_long_as_by_the_flags_default() -> None:
    """If this fails, simulations and tests, which have no flags, try pods again at other times."""
    default = command_flags.DeprecatedOptions().pod_max_in_unschedulable_pods
    assert default.seconds == scheduling_queue.DEFAULT_MAX_IN_UNSCHEDULABLE


def test_every_use_of_a_flag_is_recorded() -> None:
    assert _parse("--v=1", "-v2", "--leader_elect").uses == (("v", "1"), ("v", "2"), ("leader-elect", "true"))


def test_help_lists_every_flag_once_with_its_section() -> None:
    flag_set = command_flags.flag_set()
    text = flags.usage("program", flag_set)
    for section in flag_set.sections:
        assert f"\n{section.title} flags:\n" in text
        for flag in section.flags:
            found = [line for line in text.splitlines() if line.split("--")[-1].split()[0:1] == [flag.name]]
            assert found or f"--{flag.name} " in text or f"--{flag.name}[" in text, flag.name
    assert text.index("Trireme flags") > text.index("Global flags")


@pytest.mark.parametrize("columns", [60, 80, 100, 132])
def test_help_is_wrapped_to_the_terminal(columns: int) -> None:
    flag_set = command_flags.flag_set()
    lines = flags.usage("program", flag_set, columns).splitlines()
    wide = [line for line in lines if len(line) > columns and len(line.split()) > 1]
    # The name of a flag and its kind of value stand together, and so does a value that holds no blank.
    assert not [line for line in wide if not line.lstrip().startswith("--")]
    assert {" ".join(line.split()) for line in wide} <= {
        " ".join(flags._help_flag_column(flag).split()) for flag in flag_set.flags()
    }
    assert max(map(len, flags.usage("program", flag_set).splitlines())) > columns


@pytest.mark.parametrize("texts", [["a"], ["a,b", 'c"d', " e"], ["", "x"]], ids=["one", "odd", "empty"])
def test_lists_are_written_as_they_are_read(texts: list[str]) -> None:
    shown = flag_values.show_csv(texts)
    assert flag_values.parse_csv(shown) == texts


def test_a_list_with_an_open_quote_is_refused() -> None:
    with pytest.raises(ValueError, match="extraneous or missing"):
        flag_values.parse_csv('"a')


@pytest.mark.parametrize("name", sorted(OLD_FLAGS))
def test_a_flag_of_old_is_refused_naming_the_command_that_replaces_it(name: str) -> None:
    with pytest.raises(FlagError) as caught:
        _parse(f"--{name}=x")
    assert "`trireme config convert`" in advice_for_unknown_flag(str(caught.value))


def test_a_flag_that_never_existed_has_no_replacement() -> None:
    assert advice_for_unknown_flag("unknown flag: --confg") == ""
