"""Logs as klog writes them."""

import asyncio
import dataclasses
import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from trireme_kube.componentbase.logs import klog

LOG = logging.getLogger("trireme.frontend.some_module")
_HEADER = re.compile(r"([IWEF])\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ test_klog\.py:\d+\] (.*)\Z", re.DOTALL)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """The logging of the test run itself comes back."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    for handler in handlers:
        root.removeHandler(handler)
    yield
    for handler in list(root.handlers):
        root.removeHandler(handler)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)
    logging.getLogger("trireme").setLevel(logging.NOTSET)
    LOG.setLevel(logging.NOTSET)


def _written(options: klog.LogOptions) -> io.StringIO:
    stream = io.StringIO()
    klog.setup(dataclasses.replace(options, packages=("trireme",)), io.StringIO(), stream)
    return stream


def _text(stream: io.StringIO) -> tuple[str, str]:
    found = _HEADER.match(stream.getvalue().rstrip("\n"))
    assert found, stream.getvalue()
    return found[1], found[2]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        pytest.param({"pod": "ns/name", "node": "n"}, '"said" pod="ns/name" node="n"', id="text"),
        pytest.param({"count": 3, "on": True, "none": None}, '"said" count=3 on=true none=null', id="numbers"),
        pytest.param({"err": 'a "quoted" one'}, '"said" err="a \\"quoted\\" one"', id="quotes"),
        pytest.param({"lines": "a\nb"}, '"said" lines=<\n\ta\n\tb\n >', id="lines"),
        pytest.param({"list": ["a", 1]}, '"said" list=["a",1]', id="list"),
        pytest.param({"pod": klog.Ref("ns/name")}, '"said" pod="ns/name"', id="object"),
        pytest.param({"zone": "r\x00z"}, r'"said" zone="r\x00z"', id="unprintable"),
    ],
)
def test_a_structured_line(values: dict[str, object], text: str) -> None:
    """A log collector made for kube-scheduler could not parse the line."""
    stream = _written(klog.LogOptions())
    klog.info(LOG, 0, "said", **values)
    assert _text(stream) == ("I", text)


@pytest.mark.parametrize(
    ("level", "severity"), [(logging.INFO, "I"), (logging.WARNING, "W"), (logging.ERROR, "E"), (logging.CRITICAL, "F")]
)
def test_an_unstructured_line_has_its_severity(level: int, severity: str) -> None:
    """Errors would not be found by their letter."""
    stream = _written(klog.LogOptions())
    LOG.log(level, "%d things", 3)
    assert _text(stream) == (severity, "3 things")


@pytest.mark.parametrize(("verbosity", "shown"), [(0, [0]), (2, [0, 1, 2]), (4, [0, 1, 2, 3, 4]), (5, [*range(6)])])
def test_verbosity(verbosity: int, shown: list[int]) -> None:
    """-v would show more or less than it does for kube-scheduler."""
    stream = _written(klog.LogOptions(verbosity=verbosity))
    for level in range(8):
        klog.info(LOG, level, f"line {level}")
    assert re.findall(r'"line (\d)"', stream.getvalue()) == [str(level) for level in shown]


def test_debug_is_verbosity_four() -> None:
    """Lines of the standard library's kind would never be seen, or always."""
    assert klog.verbosity_of(logging.DEBUG) == 4
    assert [klog.verbosity_of(klog.level_of(verbosity)) for verbosity in range(11)] == [*range(11)]


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("some_module", True),
        ("some*", True),
        ("other", False),
        ("frontend", False),
        ("*/frontend/*", True),
    ],
)
def test_modules_have_a_verbosity_of_their_own(pattern: str, matches: bool) -> None:
    """--vmodule would be without effect, or concern all modules."""
    stream = _written(klog.LogOptions(modules=[(pattern, 5)]))
    klog.info(LOG, 5, "detail")
    assert ("detail" in stream.getvalue()) == matches


def test_modules_that_are_loaded_later_have_their_verbosity() -> None:
    """--vmodule would only concern what is loaded before the flags are read, which is next to nothing."""
    stream = _written(klog.LogOptions(modules=[("loaded_*", 5)]))
    for number, name in enumerate(("loaded_later", "other_later")):
        logger = logging.getLogger(f"trireme.frontend.{name}")
        klog.info(logger, 5, f"line {number}")
        klog.info(logger, 6, "too much")
    assert re.findall(r'"(.*)"', stream.getvalue()) == ["line 0"]


def test_no_module_is_made_quieter() -> None:
    """A pattern with a low level would hide what -v has shown."""
    stream = _written(klog.LogOptions(verbosity=4, modules=[("some_module", 2)]))
    klog.info(LOG, 4, "said")
    klog.set_verbosity(1)
    klog.info(LOG, 2, "by its own")
    klog.info(LOG, 3, "unsaid")
    assert re.findall(r'"(.*)"', stream.getvalue()) == ["said", "by its own"]


def test_json_lines() -> None:
    """A collector of JSON logs would miss the message, the values or the level."""
    stream = _written(klog.LogOptions(format="json", verbosity=2))
    klog.info(LOG, 2, "said", pod=klog.Ref("ns/name"), node=klog.Ref("n"))
    klog.error(LOG, "failed", err="why")
    said, failed = (json.loads(line) for line in stream.getvalue().splitlines())
    assert said.pop("ts") > 1e12
    assert said.pop("caller").startswith("logs/test_klog.py:")
    assert said == {
        "msg": "said",
        "v": 2,
        "pod": {"name": "name", "namespace": "ns"},
        "node": {"name": "n"},
    }
    assert (failed["msg"], failed["err"], "v" in failed) == ("failed", "why", False)


def test_an_exception_comes_with_its_trace() -> None:
    """Nobody could tell where a defect is."""
    stream = _written(klog.LogOptions())
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        LOG.exception("it failed")
    assert "RuntimeError: broken" in stream.getvalue()


def test_errors_in_a_stream_of_their_own() -> None:
    """With split streams errors would be held back, or written twice."""
    out, errors = io.StringIO(), io.StringIO()
    klog.setup(klog.LogOptions(packages=("trireme",), split=True, buffer_bytes=1000, flush_seconds=3600), out, errors)
    klog.info(LOG, 0, "said")
    klog.error(LOG, "failed")
    assert (out.getvalue(), "failed" in errors.getvalue(), "said" in errors.getvalue()) == ("", True, False)
    for handler in logging.getLogger().handlers:
        handler.flush()
    assert '"said"' in out.getvalue()


def test_a_full_buffer_is_written() -> None:
    """Lines would be held back without bound."""
    out = io.StringIO()
    klog.setup(
        klog.LogOptions(packages=("trireme",), split=True, buffer_bytes=10, flush_seconds=3600), out, io.StringIO()
    )
    klog.info(LOG, 0, "said")
    assert '"said"' in out.getvalue()


def test_the_verbosity_can_be_changed() -> None:
    """Nobody could look closer without a restart."""
    stream = _written(klog.LogOptions())
    klog.set_verbosity(3)
    klog.info(LOG, 3, "detail")
    assert "detail" in stream.getvalue()


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("contextual", [True, False])
def test_lines_name_their_part_by_the_gate(form: str, contextual: bool) -> None:
    """Who switches contextual logging off has lines without names, as kube-scheduler writes them."""
    try:
        stream = _written(klog.LogOptions(form, contextual=contextual))
        klog.error(LOG, "failed", logger="UnhandledError", pod="a")
        assert ("UnhandledError" in stream.getvalue()) == contextual
        assert "pod" in stream.getvalue()
    finally:
        klog.setup(klog.LogOptions())


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_value_forges_a_line(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A name with a line break in it could otherwise hide an attack in invented lines, or steer the terminal."""
    stream = _written(klog.LogOptions(format=form, verbosity=5))
    forged = 'a\nI1123 00:00:00.000000       1 x.go:1] "Successfully bound pod"\r\x1b[31m\u2028I1123 y'
    LOG.warning("failed: %s", forged)
    klog.info(LOG, 2, forged, pod=forged, object=klog.Ref(forged), listed=[forged], mapped={forged: forged})
    try:
        raise ValueError(forged)
    except ValueError:
        LOG.exception("failed")
    klog.fail(forged)
    written = stream.getvalue() + capsys.readouterr().err
    begins = re.compile(r"[IWEF]\d{4} [\d:.]+ +\d+ test_klog\.py|Error: a |\t| >|\{")
    assert all(begins.match(line) for line in written.removesuffix("\n").split("\n")), written
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", written)


async def test_lines_of_packages_are_left_out_where_the_block_runs_alone() -> None:
    """What others do meanwhile would be missing in the log, or what only answers a question would be in it."""
    stream = _written(klog.LogOptions(verbosity=10))
    entered, go = asyncio.Event(), asyncio.Event()

    async def write(number: int) -> None:
        await asyncio.to_thread(klog.error, LOG, f"task {number}")

    async def answer() -> None:
        with klog.without_lines_of("trireme.frontend"):
            entered.set()
            await go.wait()
            LOG.critical("within")
            klog.info(LOG, 5, "within")
            await asyncio.create_task(write(1))
            logging.getLogger("trireme.frontends").error("of another package")
        klog.error(LOG, "after")

    answering = asyncio.create_task(answer())
    await entered.wait()
    await write(2)
    go.set()
    await answering
    found = [line.partition("] ")[2] for line in stream.getvalue().splitlines()]
    assert found == ['"task 2"', "of another package", '"after"']


def test_lines_are_left_out_where_nothing_is_set_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command would print them in front of its answer."""
    monkeypatch.setattr(logging.root, "handlers", [])
    with klog.without_lines_of("trireme.frontend"):
        LOG.error("within")
    LOG.error("after")
    assert capsys.readouterr().err == "after\n"
