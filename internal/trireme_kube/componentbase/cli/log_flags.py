"""The flags for logging that filter, score and bind have; the frontend's are kube-scheduler's, see `config`."""

from dataclasses import dataclass
from typing import Annotated

from trireme_kube.componentbase.cli.arguments import Argument
from trireme_kube.componentbase.logs import klog


def _parse_modules(text: str) -> tuple[tuple[str, int], ...]:
    """Parse `PATTERN=N,…`. Raises: ValueError."""
    found = []
    for entry in filter(None, text.split(",")):
        pattern, _, level = entry.partition("=")
        if not pattern or not (level.isascii() and level.isdigit()):
            raise ValueError(f"{entry!r} is not PATTERN=N")
        found.append((pattern, int(level)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class LogFlags:
    """Format and verbosity of the log."""

    logging_format: Annotated[str, Argument("form of the log (default %(default)s)", choices=("text", "json"))] = "text"
    v: Annotated[int, Argument("log verbosity", letter="v")] = 0
    vmodule: Annotated[
        tuple[tuple[str, int], ...],
        Argument(
            "verbosities of single modules, by patterns of their names",
            metavar="PATTERN=N,...",
            parse=_parse_modules,
        ),
    ] = ()
    contextual_logging: Annotated[
        str,
        Argument("name the part of the scheduler that a line is of (default %(default)s)", choices=("true", "false")),
    ] = "true"

    def options(self, package: str) -> klog.LogOptions:
        """The logging options; `package` is the program's own, whose loggers they concern."""
        return klog.LogOptions(
            self.logging_format,
            self.v,
            self.vmodule,
            contextual=self.contextual_logging == "true",
            packages=(package,),
        )
