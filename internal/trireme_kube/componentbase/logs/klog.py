"""Logs in the form of Kubernetes' own components: klog's text, or JSON; `-v` levels and `--vmodule`.

Tools that read kube-scheduler's logs should be able to read these. A line is a message and named values, written as
`info(log, 2, "Successfully bound pod to node", pod="ns/name")`; lines of the standard library's kind (`log.warning("…:
%s", error)`) become klog's unstructured ones. A disabled level costs one dictionary look-up. `--vmodule` raises the
level of single modules, including modules that are imported later: every logger of this program looks up its level when
it is made. It never lowers a level.

The verbosity n of klog is a level of the standard library below INFO, in steps of one, and DEBUG is 4.

Secrets are not logged: callers name each value, and no request's headers or body is ever among them.
"""

import contextlib
import contextvars
import fnmatch
import io
import json
import logging
import os
import sys
import threading
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from trireme_kube.apimachinery import golang

# The verbosity that the standard library's DEBUG stands for.
_DEBUG_VERBOSITY = 4
_OWN_PACKAGE = __name__.partition(".")[0]

_SEVERITIES = {logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "F"}


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What is logged, and how.

    `modules` are patterns of module names with a verbosity of their own. `split`: errors go to stderr and the rest to
    stdout, with up to `buffer_bytes` held back for `flush_seconds`. `contextual`: lines name the part of the
    program that wrote them (gate ContextualLogging). `packages`: the program's top-level packages, whose loggers follow
    the verbosity; other libraries log warnings only.
    """

    format: str = "text"
    verbosity: int = 0
    modules: Sequence[tuple[str, int]] = ()
    split: bool = False
    buffer_bytes: int = 0
    flush_seconds: float = 5.0
    contextual: bool = True
    packages: Sequence[str] = ()


class Ref(str):
    """The name of an object, `namespace/name` or `name`: shown as it is in text, and as an object in JSON."""

    __slots__ = ()

    def parts(self) -> dict[str, str]:
        """The name in the JSON form of kube-scheduler."""
        namespace, _, name = self.rpartition("/")
        return {"name": name, "namespace": namespace} if namespace else {"name": name}


def level_of(verbosity: int) -> int:
    """The standard library's level of a verbosity."""
    if verbosity < _DEBUG_VERBOSITY:
        return logging.INFO - verbosity
    return max(logging.DEBUG - (verbosity - _DEBUG_VERBOSITY), 1)


def verbosity_of(level: int) -> int:
    """The verbosity of a level; 0 from INFO on."""
    if level >= logging.INFO:
        return 0
    if level > logging.DEBUG:
        return logging.INFO - level
    return _DEBUG_VERBOSITY + logging.DEBUG - level


def enabled(logger: logging.Logger, verbosity: int) -> bool:
    """Whether `info` at this verbosity would write anything: check it before computing costly values."""
    return logger.isEnabledFor(level_of(verbosity))


def info(logger: logging.Logger, verbosity: int, message: str, /, **values: object) -> None:
    """Log a structured line at a verbosity."""
    level = level_of(verbosity)
    if logger.isEnabledFor(level):
        logger.log(level, message, extra={"values": values}, stacklevel=2)


def error(logger: logging.Logger, message: str, /, **values: object) -> None:
    """Log a structured error; name what went wrong `err`."""
    logger.log(logging.ERROR, message, extra={"values": values}, stacklevel=2)


def named(logger: logging.Logger, name: str) -> dict[str, str]:
    """Return the value `logger` for lines of plugins: kube-scheduler shows it from -v=4 on; empty below that."""
    return {"logger": name} if enabled(logger, 4) else {}


# The packages whose lines are left out where this code runs, as what their loggers' names begin with.
_left_out: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("left_out", default=())


@contextlib.contextmanager
def without_lines_of(*packages: str) -> Iterator[None]:
    """Write no line of these packages, of no level, within the block, nor in tasks and threads that begin in it.

    For work that only answers a question: what it finds is in the answer, and nothing of it happened.
    """
    token = _left_out.set((*_left_out.get(), *(f"{package}." for package in packages)))
    try:
        yield
    finally:
        _left_out.reset(token)


def _is_wanted(record: logging.LogRecord) -> bool:
    """Whether the line is not left out where it is written."""
    return not record.name.startswith(_left_out.get())


if logging.lastResort is not None:
    # What writes where nothing is set up.
    logging.lastResort.addFilter(_is_wanted)


def setup(options: LogOptions, stdout: TextIO | None = None, stderr: TextIO | None = None) -> None:
    """Log as the options say from now on; an earlier setup is replaced."""
    errors = stderr or sys.stderr
    formatter: logging.Formatter = _JsonFormatter() if options.format == "json" else _TextFormatter()
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    if options.split:
        rest = _BufferedHandler(stdout or sys.stdout, options.buffer_bytes, options.flush_seconds)
        rest.addFilter(lambda record: record.levelno < logging.ERROR)
        only_errors: logging.Handler = logging.StreamHandler(errors)
        only_errors.setLevel(logging.ERROR)
        handlers: list[logging.Handler] = [rest, only_errors]
    else:
        handlers = [logging.StreamHandler(errors)]
    for handler in handlers:
        handler.setFormatter(formatter)
        handler.addFilter(_is_wanted)
        root.addHandler(handler)
    root.setLevel(logging.WARNING)  # other people's libraries
    _settings.modules = tuple(options.modules)
    _settings.contextual = options.contextual
    _settings.packages = (*options.packages, _OWN_PACKAGE)
    _settings.json = options.format == "json"
    if _settings.json:
        _silence_other_text()
    logging.setLoggerClass(_LoggerAfterSetup)
    set_verbosity(options.verbosity)


def announce(message: str) -> None:
    """Write one line to stdout, whatever the verbosity, in the format of the logs: programs wait for it."""
    if _settings.json:
        record = logging.LogRecord(_OWN_PACKAGE, logging.INFO, __file__, 0, message, (), None)
        message = _JsonFormatter().format(record)
    # In one write: several processes may share a stdout.
    print(f"{message}\n", end="", flush=True)


def fail(message: str) -> None:
    """Write one line to stderr, in the format of the logs: why the process cannot start. The caller ends it."""
    line = _without_terminal_controls(" ".join(message.split()))
    if _settings.json:
        logging.getLogger(_OWN_PACKAGE).error(line)
    else:
        print(f"Error: {line}", file=sys.stderr, flush=True)


def set_verbosity(verbosity: int) -> None:
    """Change the verbosity of all modules; those with a higher one of their own keep it."""
    _settings.verbosity = verbosity
    for package in _settings.packages:
        logging.getLogger(package).setLevel(level_of(verbosity))
    for name, logger in list(logging.root.manager.loggerDict.items()):
        # An entry that is not a logger stands for a package, whose modules have loggers of their own.
        if "." in name and _settings.is_own_logger(name) and isinstance(logger, logging.Logger):
            logger.setLevel(_settings.level_of_logger(name))


def _silence_other_text() -> None:
    """Prevent all other text of Python's on stderr: tracebacks and warnings."""

    def log_uncaught(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
        logging.getLogger(_OWN_PACKAGE).critical(
            "uncaught %s; report this defect", kind.__name__, exc_info=(kind, error, trace)
        )

    sys.excepthook = log_uncaught
    logging.captureWarnings(True)


@dataclass(slots=True)
class _LatestOptions:
    """The latest options."""

    json: bool = False
    verbosity: int = 0
    modules: Sequence[tuple[str, int]] = ()
    contextual: bool = True
    packages: Sequence[str] = (_OWN_PACKAGE,)

    def is_own_logger(self, name: str) -> bool:
        """Whether a logger is one of the program's own."""
        return name.partition(".")[0] in self.packages

    def level_of_logger(self, name: str) -> int:
        """The level of a logger, by the first matching pattern; NOTSET: the level of all others."""
        own = next((verbosity for pattern, verbosity in self.modules if _matches_module_pattern(pattern, name)), 0)
        return level_of(own) if own > self.verbosity else logging.NOTSET


_settings = _LatestOptions()


class _LoggerAfterSetup(logging.Logger):
    """A logger that is made after the setup."""

    def __init__(self, name: str, level: int = logging.NOTSET) -> None:
        if level == logging.NOTSET and "." in name and _settings.is_own_logger(name):
            level = _settings.level_of_logger(name)
        super().__init__(name, level)


def _matches_module_pattern(pattern: str, logger: str) -> bool:
    """A pattern without a slash matches the module's own name, one with a slash its whole path."""
    path = logger.replace(".", "/")
    return fnmatch.fnmatchcase(path if "/" in pattern else path.rpartition("/")[2], pattern)


def _structured_values(record: logging.LogRecord) -> Mapping[str, object] | None:
    """Return a record's key-value pairs, None for a plain message; `logger` only with contextual logging."""
    values = getattr(record, "values", None)
    if not isinstance(values, dict):
        return None
    if _settings.contextual or "logger" not in values:
        return values
    return {name: value for name, value in values.items() if name != "logger"}


class _TextFormatter(logging.Formatter):
    """klog's header, then `"message" key="value" …`."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%m%d %H:%M:%S", time.localtime(record.created))
        micros = int(record.created % 1 * 1_000_000)
        severity = _SEVERITIES.get(record.levelno, "I" if record.levelno < logging.WARNING else "E")
        header = f"{severity}{moment}.{micros:06d} {os.getpid():>7} {record.filename}:{record.lineno}]"
        values = _structured_values(record)
        if values is None:
            line = f"{header} {_multiline_text(record.getMessage())}"
        else:
            named = "".join(f" {name}={_format_value(value)}" for name, value in values.items())
            line = f"{header} {_quote(record.getMessage())}{named}"
        if record.exc_info:
            line += f"\n\t{_multiline_text(self.formatException(record.exc_info))}"
        return line


class _JsonFormatter(logging.Formatter):
    """One JSON object a line: ts in milliseconds, caller, msg, v (not for errors), then the values."""

    def format(self, record: logging.LogRecord) -> str:
        folder, _, file = record.pathname.rpartition("/")
        out: dict[str, Any] = {
            "ts": round(record.created * 1000, 3),
            "caller": f"{folder.rpartition('/')[2]}/{file}:{record.lineno}",
            "msg": record.getMessage(),
        }
        if record.levelno < logging.ERROR:
            out["v"] = verbosity_of(record.levelno)
        for name, value in (_structured_values(record) or {}).items():
            out[name] = value.parts() if isinstance(value, Ref) else value
        if record.exc_info:
            out["stacktrace"] = self.formatException(record.exc_info)
        return json.dumps(out, default=str, ensure_ascii=False)


def _format_value(value: object) -> str:
    """A value as klog prints it: text in quotes, but text of several lines as a block; everything else bare."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, default=str, separators=(",", ":"), ensure_ascii=False)
    text = str(value)
    if "\n" in text:
        lines = "".join(f"\t{_without_terminal_controls(line)}\n" for line in text.splitlines())
        return f"<\n{lines} >"
    return _quote(text)


def _multiline_text(text: str) -> str:
    """Text of several lines, in which none but the first looks like a line of the log.

    Names of objects and callers come from outside, and could hold a whole forged line.
    """
    return text if text.isprintable() else "\n\t".join(_without_terminal_controls(line) for line in text.splitlines())


def _without_terminal_controls(text: str) -> str:
    """Without what would steer the terminal that shows the log; tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c == "\t" else golang.printable(c) for c in text)


def _quote(text: str) -> str:
    """Quote a text as Go's `%q` does; the usual text needs no escapes and is cheap."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return golang.quote(text)


class _BufferedHandler(logging.Handler):
    """Writes at once, or holds back up to so many bytes for so long. An error flushes everything."""

    def __init__(self, stream: TextIO, size: int, seconds: float) -> None:
        super().__init__()
        self._stream = stream
        self._size = size
        self._seconds = seconds
        self._held = io.StringIO()
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Hold the line back; write all that is held once it is too much, or a timer ends."""
        try:
            self._held.write(self.format(record) + "\n")
            if self._held.tell() >= self._size:
                self.flush()
            elif self._timer is None:
                self._timer = threading.Timer(self._seconds, self.flush)
                self._timer.daemon = True
                self._timer.start()
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        """Write what is held back."""
        with self.lock or threading.RLock():
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            text, self._held = self._held.getvalue(), io.StringIO()
            if text:
                self._stream.write(text)
                self._stream.flush()

    def close(self) -> None:
        self.flush()
        super().close()
