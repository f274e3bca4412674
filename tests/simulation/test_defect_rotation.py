"""The simulator still finds the defects that it is documented to find: those of the day, from their seeds on.

If one is not found, `make simulate-regressions NAMES=... SAVE=1` looks for it among more seeds; what it finds goes into
the defect's decorator, and by `make docs` into docs/reference/simulation-checks.md. If nothing finds it, a check has
lost its teeth.
"""

import datetime

import pytest

from tests.simulation import defect_search, defects_document
from tests.simulation.defects.catalogue import DEFECTS
from trireme_kube.componentbase import clocks

TODAY = defect_search.names_of_day(clocks.utc_now().date())
# Of processor time, for each: what it took last, several times over; where its seed no longer finds it, others may.
LEAST_SECONDS, TIMES = 100, 3


@pytest.mark.slow
@pytest.mark.timeout(1200)  # processor time is limited; a busy machine gives it slowly
@pytest.mark.parametrize("name", TODAY)
def test_the_simulator_finds_a_defect_again(name: str) -> None:
    seconds = max(LEAST_SECONDS, TIMES * defects_document.found()[name]["seconds"])
    assert defect_search.is_found(DEFECTS[name], seconds, [])


def test_each_defect_has_its_day() -> None:
    start = datetime.date(2026, 1, 1)
    days = [defect_search.names_of_day(start + datetime.timedelta(days=each)) for each in range(30)]
    assert {name for names in days for name in names} == set(DEFECTS)
    last = defects_document.found()
    assert all(len(names) == 1 or sum(last[name]["seconds"] for name in names) <= 45 for names in days)
