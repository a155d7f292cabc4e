"""run.json: the whole run as strict JSON; every other format is made from it."""

from __future__ import annotations

import json
from typing import Any

from kvcheck.agent.protocol import plain


def render(run: dict[str, Any]) -> str:
    """The run as JSON text. Non-finite numbers are the strings "nan", "inf", "-inf"; everything is ASCII.

    Raises:
        TypeError: a value that JSON has no form for.
    """
    return json.dumps(plain(run), allow_nan=False, indent=1) + "\n"
