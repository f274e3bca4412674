"""Score that takes the other one of two nodes: a decision that comes out differently when insight makes it again."""

import dataclasses
import sys
from typing import Any

from grpc import aio

from trireme.phases import phase_process
from trireme.score import process, service
from trireme.v1 import score_phase_pb2


class _FaultyScore(service.ScorePhase):
    async def Place(
        self, request: score_phase_pb2.PlaceRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_phase_pb2.PlaceResponse:
        response = await super().Place(request, context)
        for index, slot in enumerate(response.slots):
            response.slots[index] = 1 - slot
        return response


faulty = dataclasses.replace(
    process.PHASE,
    make=lambda snap, remotes, follow: _FaultyScore(
        snap, remotes.make_score_plugin, remotes.make_score_plugin, follow=follow
    ),
)
sys.exit(phase_process.run(faulty, None))
