"""The whole check: reads, judges, and prints.

Tests: tests/unit/shadow/test_migration_findings.py.
"""

import logging
import pathlib
import textwrap
from collections.abc import Sequence

from trireme.shadow.migration import findings, scheduler_reading
from trireme.shadow.migration.finding import Finding, FindingKind
from trireme_kube.apimachinery import configuration_files
from trireme_kube.client.rest import client

log = logging.getLogger(__name__)

_WIDTH = 80


async def of_cluster(api: client.ApiClient) -> list[Finding]:
    """The findings about the kube-schedulers of a cluster, with next steps. Replicas that are alike count once.

    Raises: ApiError, ApiUnreachable: as `scheduler_reading.read`.
    """
    visible, reason = await scheduler_reading.read(api)
    found = [findings.not_visible(reason)] if reason else []
    for each in visible:
        try:
            found += findings.of_scheduler(each)
        except Exception as error:
            # What the cluster's scheduler is given comes from others, and must not end the program that reads it.
            log.exception("%s cannot be judged; report this defect", each.place)
            found.append(findings.not_visible(f"{each.place} cannot be judged: {type(error).__name__}: {error}"))
    distinct = list(dict.fromkeys(found))
    return [*distinct, *findings.next_steps(distinct)]


def of_file(path: str, arguments: Sequence[str] = ()) -> list[Finding]:
    """The findings about a configuration file that was given by hand, and flags.

    Raises: ConfigurationError: the file cannot be read, or is no KubeSchedulerConfiguration.
    """
    content = configuration_files.read_file(path)
    if unreadable := findings.unreadable_text(content):
        raise configuration_files.ConfigurationError(f"{path}: {unreadable}. Nothing was checked")
    given = scheduler_reading.VisibleScheduler(
        pathlib.Path(path).name, "", scheduler_reading.flags_of_command(arguments), content, path
    )
    found = findings.of_scheduler(given)
    return [*found, *findings.next_steps(found)]


def lines(found: Sequence[Finding]) -> list[str]:
    """The findings as text of at most 80 columns, or more where a word, such as a URL, is longer."""
    out: list[str] = []
    for kind in FindingKind:
        of_kind = [each for each in found if each.kind is kind]
        if not of_kind:
            continue
        out.append(f"{kind.value.capitalize()}:")
        for each in of_kind:
            text = f"{each.subject} {each.text}" if kind is FindingKind.NEXT else f"{each.subject}: {each.text}"
            out += textwrap.wrap(
                text,
                _WIDTH,
                initial_indent="  ",
                subsequent_indent="    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
    return out
