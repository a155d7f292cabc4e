"""`python -m kvcheck.agent`, and what the agent's zip runs."""

from __future__ import annotations

from kvcheck.agent.serve import main

if __name__ == "__main__":
    main()
