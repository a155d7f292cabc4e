"""What anything that executes cases offers: the local executor today, a cluster's later."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Protocol

from kvcheck.cases.model import Case


class CaseExecutor(Protocol):
    """Turns cases into rows, in any order and from any thread.

    Attributes:
        environment: what the first ready agent reported; empty before that.
        jobs: how many cases are run at once; 0 before that is known.
    """

    environment: dict[str, Any]
    jobs: int

    def submit(self, case: Case) -> Future[dict[str, Any]]:
        """Takes a case; the future gives its row, whatever becomes of the agent."""

    def wait_ready(self) -> dict[str, Any]:
        """The environment, once an agent is ready.

        Raises:
            StartError: none will be.
        """

    def doctor(self) -> list[dict[str, Any]]:
        """Which providers can run where the agents run."""

    def close(self) -> None:
        """Stops what runs and drops what waits; what was judged stays in the journal."""
