"""Score that takes the other one of two nodes: a decision that comes out differently when insight makes it again."""

import sys
from typing import Any

from trireme.score import process, service

_place = service.ScorePhase.Place


async def _place_on_the_other_node(self: Any, request: Any, context: Any) -> Any:
    response = await _place(self, request, context)
    for index, slot in enumerate(response.slots):
        response.slots[index] = 1 - slot
    return response


service.ScorePhase.Place = _place_on_the_other_node  # type: ignore[method-assign]
sys.exit(process.main())
