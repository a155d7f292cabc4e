"""Stands in for the agent in an image: answers by the kernel file that the image has, without torch, in milliseconds.

Python runs it at its start, from a .pth file; it does something only where the program is an agent's zip.
"""

import json
import os
import random
import sys
import time

KERNEL = "/opt/nightly/nightly_kernel/__init__.py"
DEVICE = {"type": "cpu", "name": "double"}


def verdict(kind, request):
    """What an agent with torch answers for a kernel of this kind."""
    row = {"verdict": "pass", "message": "", "metrics": {}, "premise": "holds", "params": request["params"]}
    if kind == "flaky":
        kind = "wrong" if random.SystemRandom().random() < 0.9 else "right"
    if kind == "other":
        row.update(verdict="crash", message="RuntimeError: another bug altogether")
    elif kind == "wrong":
        row.update(verdict="wrong_topk", message="1 of 2 rows", output="indices", check="set")
    elif kind == "lacks":
        row.update(verdict="crash", message="ModuleNotFoundError: No module named 'nightly_kernel'")
    return row


def serve():
    """Speaks the agent's protocol."""
    answers = os.dup(1)

    def say(message):
        os.write(answers, json.dumps(message).encode() + b"\n")

    try:
        with open(KERNEL) as file:
            kind = file.readline().strip("# \n")
    except OSError:
        kind = "lacks"
    say({"type": "ready", "protocol": 1, "pid": os.getpid(), "environment": {"device": DEVICE, "torch": "0"}})
    for line in sys.stdin:
        request = json.loads(line)
        if request["type"] == "exit":
            return
        for phase in ("load", "inputs", "kernel"):
            say({"type": "phase", "phase": phase})
            if phase == "load" and kind == "lacks":
                break
        if kind == "hangs":
            time.sleep(600)
        say({"type": "result", "ticket": request["ticket"], "row": verdict(kind, request)})


if sys.orig_argv[1:2] and sys.orig_argv[1].endswith(".zip"):
    serve()
    os._exit(0)
