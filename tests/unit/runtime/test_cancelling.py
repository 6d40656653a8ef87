"""Which cancellations end a task, and which are an error of somebody else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shared.cancelling import cancellations_of_others_are_errors


def cancelled_future() -> asyncio.Future[Any]:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    return future


async def test_a_future_that_somebody_else_cancelled_is_an_error() -> None:
    with pytest.raises(ConnectionError, match="cancelled what waited"), cancellations_of_others_are_errors():
        await cancelled_future()


async def test_a_task_that_is_cancelled_ends_as_cancelled() -> None:
    waiting = asyncio.Event()

    async def work() -> None:
        with cancellations_of_others_are_errors():
            waiting.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("is_outside", [True, False])
async def test_a_time_out_stays_a_time_out(is_outside: bool) -> None:
    with pytest.raises(TimeoutError):
        if is_outside:
            async with asyncio.timeout(0):
                with cancellations_of_others_are_errors():
                    await asyncio.Event().wait()
        else:
            with cancellations_of_others_are_errors():
                async with asyncio.timeout(0):
                    await asyncio.Event().wait()


async def test_other_errors_and_results_pass_unchanged() -> None:
    with pytest.raises(ValueError, match="own"), cancellations_of_others_are_errors():
        raise ValueError("own")
    with cancellations_of_others_are_errors():
        assert await asyncio.sleep(0, "done") == "done"
