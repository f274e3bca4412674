"""The flags of insight for recordings: where to, and how much."""

import argparse
import contextlib
import pathlib

from trireme.insight import service
from trireme.recording import segment_writer
from trireme_kube.apimachinery import golang, quantity
from trireme_kube.componentbase import supervision

_LEAST_BYTES = 1 << 20
_LEAST_SECONDS = 60
_NS = 1_000_000_000


def add(flags: argparse.ArgumentParser) -> None:
    """Add the flags."""
    flags.add_argument(
        "--record-dir",
        default="",
        metavar="DIR",
        help="folder for recordings of the cluster and the queue, which hold names and labels; empty: none are made",
    )
    flags.add_argument(
        "--record-max-bytes",
        type=_parse_bytes,
        default="1Gi",
        metavar="QUANTITY",
        help="most that the recordings take; the oldest are deleted (default %(default)s)",
    )
    flags.add_argument(
        "--record-max-age",
        type=_parse_age,
        default="24h",
        metavar="DURATION",
        help="recordings that began longer ago are deleted (default %(default)s)",
    )


def recording(
    insight: service.InsightService, options: argparse.Namespace, supervisor: supervision.Supervisor
) -> contextlib.AbstractAsyncContextManager[None]:
    """Record what insight receives, if the flags say so; before its first stream."""
    if not options.record_dir:
        return contextlib.nullcontext()
    limits = segment_writer.Limits(options.record_max_bytes, options.record_max_age)
    writer = segment_writer.RecordingWriter(pathlib.Path(options.record_dir), limits)
    return insight.record_to(writer).running(supervisor)


def _parse_bytes(text: str) -> int:
    """A quantity of bytes. Raises: ArgumentTypeError."""
    try:
        number = quantity.parse_quantity(text).value()
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a quantity: {error}") from error
    if number < _LEAST_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 1Mi")
    return number


def _parse_age(text: str) -> float:
    """A duration in seconds. Raises: ArgumentTypeError."""
    try:
        seconds = golang.parse_duration(text).nanoseconds / _NS
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if seconds < _LEAST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 1m")
    return seconds
