"""Exit codes, from verdicts alone."""

from __future__ import annotations

from collections.abc import Iterable

from kvcheck.agent.protocol import NOT_JUDGED, failed

PASSED, FAILED, USAGE, NOTHING_JUDGED, SKIP = 0, 1, 2, 3, 125


def exit_code(verdicts: Iterable[str]) -> int:
    """The exit code of a run.

    Args:
        verdicts: of every case.

    Returns:
        code: 1 when a case failed; else 3 when none was judged or the harness had trouble; else 0.
    """
    verdicts = list(verdicts)
    if any(map(failed, verdicts)):
        return FAILED
    if "harness_error" in verdicts or all(verdict in NOT_JUDGED for verdict in verdicts):
        return NOTHING_JUDGED
    return PASSED


def for_git_bisect(code: int) -> int:
    """The code as `git bisect run` takes it: what could not be judged is skipped, never bad."""
    return SKIP if code == NOTHING_JUDGED else code
