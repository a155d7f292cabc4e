"""Speaks an agent's protocol without torch and does what the case's params say: what supervision is tested with, in milliseconds.

`act` is a list of steps: a phase by name, or one of the deeds below. Without a last word of its own it answers `pass`.
DOUBLE_ACT is such a list for cases that have none, or lists by case id, as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

ANSWERS = os.dup(1)
os.dup2(2, 1)
PHASES = ("load", "inputs", "kernel", "compile", "reference", "judge")


def say(message):
    os.write(ANSWERS, (message if isinstance(message, str) else json.dumps(message)).encode() + b"\n")


def do(step, request):
    """One step; True when it was the answer."""
    name, _, value = step.partition(":")
    row = {"verdict": "pass", "message": "", "metrics": {"topk": request["params"].get("topk")}, "premise": "holds"}
    row["params"] = {**request["params"], "pid": os.getpid()}
    if name in PHASES:
        say({"type": "phase", "phase": name})
    elif name == "signal":
        os.kill(os.getpid(), getattr(signal, value))
    elif name == "status":
        os._exit(int(value))
    elif name == "sleep":
        time.sleep(float(value))
    elif name == "print":
        print(value, file=sys.stderr, flush=True)
    elif name == "flood":
        for _ in range(int(value)):
            os.write(2, b"x" * 4095 + b"\n")
    elif name == "say":
        say(value)
        return True
    elif name == "verdict":
        say({"type": "result", "ticket": request["ticket"], "row": {**row, "verdict": value, "message": request.get("message", "as told")}})
        return True
    elif name == "message":
        request["message"] = value
    elif name == "stale":
        say({"type": "result", "ticket": request["ticket"] - 1, "row": row})
        return True
    elif name == "die_after":
        say({"type": "result", "ticket": request["ticket"], "row": row})
        sys.stdin.readline()
        os.kill(os.getpid(), signal.SIGSEGV)
    return False


def acts(case):
    """What the environment wants done with a case."""
    wanted = json.loads(os.environ.get("DOUBLE_ACT", "[]"))
    return wanted.get(case, []) if isinstance(wanted, dict) else wanted


def main():
    start = os.environ.get("DOUBLE_START", "")
    if start == "refuses":
        return say({"type": "failed", "reason": "torch sees no GPU"})
    if start == "dies":
        print("cannot open libtorch", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGABRT)
    if start == "hangs":
        time.sleep(600)
    if start == "babbles":
        return say("Welcome to the machine")
    device = os.environ.get("DOUBLE_DEVICE", "cpu")
    say({"type": "ready", "protocol": 1, "pid": os.getpid(), "environment": {"device": {"type": device}}})
    for line in sys.stdin:
        request = json.loads(line)
        if request["type"] == "exit":
            return None
        if request["type"] == "doctor":
            say({"type": "doctor", "ticket": request["ticket"], "providers": [{"name": "double", "available": True}]})
            continue
        premise = request["params"].get("premise")
        steps = request["params"].get("act") or acts(request["id"])
        if request.get("premise_only"):
            row = {"verdict": "invalid_case" if premise == "fails" else "pass", "message": "the scales are not finite", "premise": premise}
            say({"type": "result", "ticket": request["ticket"], "row": {**row, "params": {**request["params"], "poison": "nan"}}})
        elif not any(do(step, request) for step in steps):
            do("verdict:pass", request)
    return None


main()
