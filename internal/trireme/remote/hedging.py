"""Makes a call at a second endpoint when the first one takes longer than most, and takes the first good answer.

Only for calls that change nothing, of plugins that declare that a call may be made twice. It costs one call in twenty
and cuts the rare long ones: a replica that pauses does not keep a pod waiting.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

#: The RPCs that change nothing.
SAFE = frozenset({"PreFilter", "Filter", "FilterDryRun", "PreScore", "Score", "ScoreCopies", "NormalizeScore"})

Answer = TypeVar("Answer")


async def first_answer(
    first: Awaitable[Answer], delay: float, second: Callable[[], Awaitable[Answer] | None]
) -> Answer:
    """The answer of `first`, or, if it takes longer than `delay` seconds, that of whichever of both comes first.

    `second` makes the second call; None: nobody is free for it. A failure counts only if the other one fails as well;
    then that of the first is raised. The call that lost is cancelled.
    """
    tasks = [asyncio.ensure_future(first)]
    try:
        await asyncio.wait(tasks, timeout=delay)
        other = None if tasks[0].done() else second()
        if other is None:
            return await tasks[0]
        tasks.append(asyncio.ensure_future(other))
        waiting = set(tasks)
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task in done and not task.cancelled() and task.exception() is None:
                    return task.result()
        return await tasks[0]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
