"""The agent's message loop: requests in, phases and rows out, on descriptors that no kernel's print can reach.

Torch is imported after the options are read, and `ready` is said after that: what takes seconds is start-up, never part of a case.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import fcntl
import importlib.util
import os
import resource
import signal
import sys
import traceback
from typing import Any, BinaryIO

from kvcheck.agent import protocol

PRIVATE_FROM = 100
"""Lowest number of the private descriptors: out of the way of code that closes 3, 4, 5 by number."""

CHANNEL_LOST = 70
"""Exit status of an agent that can no longer answer."""

BLAMED = frozenset({"load", "compile", "kernel"})
"""Phases in which the provider's code runs."""

COMPILE = "compile:"
"""What --device begins with where kernels are compiled and nothing is run: compile:gfx950, compile:sm_90."""

PR_SET_PDEATHSIG = 1


class Channel:
    """One JSON object a line both ways; takes descriptors 0 and 1 away from everybody else.

    From then on descriptor 0 is /dev/null and 1 goes where 2 goes. Only the process that opened the channel may answer:
    a child that a kernel forked, and that comes back here, ends.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._requests: BinaryIO = os.fdopen(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, PRIVATE_FROM), "rb")
        self._answers = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, PRIVATE_FROM)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)

    def receive(self) -> dict[str, Any] | None:
        """The next request, or None when there will be no more."""
        try:
            line = self._requests.readline()
        except (OSError, ValueError):
            self._lost()
        self._only_the_owner()
        return protocol.decode(line) if line else None

    def send(self, message: dict[str, Any]) -> None:
        """Says one message whole, or ends the process: an agent that cannot answer is of no use."""
        self._only_the_owner()
        data = protocol.encode(message)
        try:
            while data:
                data = data[os.write(self._answers, data) :]
        except OSError:
            self._lost()

    def _only_the_owner(self) -> None:
        if os.getpid() != self._pid:
            os._exit(CHANNEL_LOST)

    def _lost(self) -> None:
        try:
            os.write(2, b"the agent's descriptors were closed from inside its process\n")
        finally:
            os._exit(CHANNEL_LOST)


def main(arguments: list[str] | None = None) -> None:
    """Serves requests until there are none.

    Args:
        arguments: command line; None reads sys.argv.
    """
    options = _options(arguments)
    channel = Channel()
    _settle()
    if options.device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # read when triton is first imported, which some torch builds do
    arch = emulated_arch(options.device)
    chip = options.device.partition(COMPILE)[2]
    if arch or chip:
        os.environ.pop("TRITON_INTERPRET", None)  # kernels are compiled for a card that is not here
    try:
        device = _open_device(options)
        from kvcheck.agent import environment, main
        from kvcheck.agent.environment.seen import Seen

        facts, seen = environment.collect(device), Seen()
        if chip:
            runner = _compiling(chip, facts)
        else:
            runner = _emulated(arch, options, facts) if arch else main.Runner(device, facts["device"])
    except Exception as error:
        channel.send({"type": "failed", "reason": _say(error)})
        return
    _limit_memory(options.memory_limit, device)
    channel.send({"type": "ready", "protocol": protocol.PROTOCOL, "pid": os.getpid(), "environment": facts})
    while (request := channel.receive()) is not None and request["type"] != "exit":
        ticket = request.get("ticket")
        if request["type"] == "doctor":
            channel.send({"type": "doctor", "ticket": ticket, "providers": runner.doctor()})
        elif request["type"] == "case":
            row = _run(runner, request, channel)
            try:
                news = seen.news(request["provider"])
            except Exception:  # what is seen beside a case costs no verdict
                news = {}
            channel.send({"type": "result", "ticket": ticket, "row": {**row, "seen": news} if news else row})
        else:
            channel.send({"type": "failed", "ticket": ticket, "reason": f"no such request: {request['type']!r}"})


def _run(runner: Any, request: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """The row of one case; what `run_case` lets through is the provider's where its code was running, and ours otherwise."""
    reached = []

    def phase(name: str) -> None:
        reached.append(name)
        channel.send({"type": "phase", "phase": name})

    try:
        row = protocol.plain(runner.run_case(request, phase))
    except BaseException as error:
        verdict = "crash" if reached and reached[-1] in BLAMED else "harness_error"
        where = f" in phase {reached[-1]}" if reached else ""
        row = {"verdict": verdict, "message": f"{_say(error)}{where}", "phase": reached[-1] if reached else None}
    sys.stdout.flush()
    sys.stderr.flush()
    return row


def emulated_arch(name: str) -> str | None:
    """The architecture of an emulated device's name: gfx950 of gfx950-emulated; None for every other device."""
    arch, dash, word = name.partition("-")
    return arch if dash and word == "emulated" else None


def _emulated(arch: str, options: argparse.Namespace, facts: dict[str, Any]) -> Any:
    """A runner whose launches are emulated; the environment's device becomes the emulated one.

    Raises:
        RuntimeError: the package that this needs is not there.
    """
    missing = [name for name in ("numpy", "triton") if importlib.util.find_spec(name) is None]
    if missing:
        raise RuntimeError(f"--device {options.device} needs {' and '.join(missing)} beside torch: pip install {' '.join(missing)}")
    from kvcheck.agent import emulated, main

    off = tuple(options.sanitizer_off)
    facts["device"] = emulated.facts(arch, facts["device"], off)
    return main.Runner("cpu", facts["device"], emulated.EmulatedDevice(arch, off, options.cores))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kvcheck-agent", description="Runs resolved cases from stdin; one JSON object a line both ways.")
    parser.add_argument(
        "--device",
        default="auto",
        help="auto, cpu, cuda, cuda:N (ROCm devices are cuda in torch), gfx942-emulated, gfx950-emulated, compile:CHIP",
    )
    parser.add_argument("--memory-limit", type=int, default=0, help="bytes a CPU agent may map beyond what start-up needs; 0 is no limit")
    parser.add_argument("--threads", type=int, default=1, help="torch threads; more than one changes the last bits of sums")
    parser.add_argument("--cores", type=int, default=1, help="processes that share an emulated launch")
    parser.add_argument(
        "--sanitizer-off", action="append", default=[], metavar="KIND", help="a kind of finding not to look for; repeatable"
    )
    return parser.parse_args(arguments)


def _settle() -> None:
    """What the process is to the machine: first to be ended when memory is short, gone when its parent is, no core files."""
    faulthandler.enable(file=2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        pass  # not Linux: the parent still ends its agents itself


def _compiling(chip: str, facts: dict[str, Any]) -> Any:
    """Answers cases with what their kernels compile to for a chip."""
    from kvcheck.agent import compile

    runner = compile.Runner(chip)
    facts["device"] = runner.facts()
    return runner


def _open_device(options: argparse.Namespace) -> Any:
    """Imports torch and makes the named device the current one.

    Raises:
        RuntimeError: torch sees no such device.
    """
    import torch

    name = "cpu" if emulated_arch(options.device) or options.device.startswith(COMPILE) else options.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
        if name == "cpu":
            os.environ["TRITON_INTERPRET"] = "1"
    device = torch.device(name)
    torch.set_num_threads(options.threads)
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise RuntimeError(f"torch {torch.__version__} sees no GPU (asked for {options.device})")
        device = torch.device("cuda", device.index or 0)
        if device.index >= torch.cuda.device_count():
            raise RuntimeError(f"torch sees {torch.cuda.device_count()} GPU(s), and {options.device} is not one of them")
        torch.cuda.set_device(device)  # Triton launches on the current device, whatever its tensors are on
    elif device.type != "cpu":
        raise RuntimeError(f"no agent for device {options.device}: expected auto, cpu, cuda or cuda:N")
    return device


def _limit_memory(limit: int, device: Any) -> None:
    """Makes a CPU kernel that exhausts memory fail alone: the limit counts from what start-up mapped.

    A GPU process maps address space in terabytes without using it, so there the kernel's own limit is the card.
    """
    if limit <= 0 or device.type != "cpu":
        return
    try:
        with open("/proc/self/statm") as file:
            mapped = int(file.read().split()[0]) * resource.getpagesize()
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        most = mapped + limit if hard == resource.RLIM_INFINITY else min(mapped + limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    except (OSError, ValueError):
        pass


def _say(error: BaseException) -> str:
    """An exception in one line, with the place it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
    return f"{type(error).__name__}: {str(error).strip()[:2000]}{place}"
