"""Asks insight many questions at once, from several callers, and prints how they were answered, as JSON.

    python flood.py ADDRESS QUESTIONS CALLERS

A process of its own: in that of a test, ten thousand calls would hold up the creation of pods there.
"""

import asyncio
import collections
import json
import sys
from typing import Any

import grpc
from grpc import aio

from trireme.v1 import simulation_pb2

METHOD = "/trireme.v1.InsightService/Simulate"
SECONDS = 200.0


def question() -> simulation_pb2.SimulateRequest:
    """What happens if a node is drained."""
    change = simulation_pb2.ScenarioChange(drain=simulation_pb2.DrainNodes(node_names=["node-0"]))
    return simulation_pb2.SimulateRequest(scenario=simulation_pb2.Scenario(changes=[change]))


async def ask(call: Any) -> str:
    """Ask; returns the name of the answer's code."""
    try:
        await call(question(), timeout=SECONDS)
    except aio.AioRpcError as error:
        return error.code().name
    return grpc.StatusCode.OK.name


async def main(address: str, questions: int, callers: int) -> None:
    """Ask all at once, and print the answers."""
    # With a pool of its own each channel has a connection, and so is another caller.
    channels = [aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) for _ in range(callers)]
    calls: list[Any] = [
        channel.unary_unary(
            METHOD,
            request_serializer=simulation_pb2.SimulateRequest.SerializeToString,
            response_deserializer=simulation_pb2.SimulateResponse.FromString,
        )
        for channel in channels
    ]
    print("asking", flush=True)
    codes = await asyncio.gather(*(ask(calls[number % callers]) for number in range(questions)))
    print(json.dumps(collections.Counter(codes)), flush=True)
    for channel in channels:
        await channel.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
