"""What stands between kvcheck and an agent that is not its own child: in a container, or behind ssh, srun or kubectl.

Its parent starts it with the image's own Python. It starts the agent as its child, passes requests on, marks answers so that nothing
else that is printed can be taken for one, says exactly how the agent ended, and ends it when nobody asks any more. Being the first
process of a container it also keeps the agent from being that: the kernel withholds signals from a first process, and an abort would
look like a segmentation fault. Standard library only, and nothing else of kvcheck: it arrives before the zip does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

GRACE = 1.0
"""Seconds an agent gets to leave once its requests have ended."""

PREFIX = "kvcheck-agent-"
CHUNK = 1 << 16
LOCK_SIZE = 256
"""Build locks hold a process id at most; a larger file is not one, whatever it is called."""


def main(arguments: list[str]) -> int:
    """Runs one agent.

    Args:
        arguments: MARK, ZIP (a path, or `-` for one on stdin behind a line with its size), `clear` or `keep` (what is done about the
            locks of builds in HOME), and the agent's own options.

    Returns:
        status: of the agent; 128 + N where signal N ended it.
    """
    mark, archive, locks, *options = arguments
    answers = os.dup(1)
    os.dup2(2, 1)  # what the agent or its children print by mistake is no answer
    folder, hold = _private_folder() if archive == "-" else (None, None)
    try:
        if folder:
            archive = os.path.join(folder, "agent.zip")
            with open(archive, "wb") as file:
                file.write(receive())
        if locks == "clear":
            clear_locks(os.path.expanduser("~"))
        status = _serve(mark, [sys.executable, archive, *options], answers)
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(hold)
    return status


def receive() -> bytes:
    """What comes next on stdin: a line with a number of bytes, then as many bytes. Not one byte more is read.

    Raises:
        EOFError: stdin ended before.
    """
    size = b""
    while not size.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            raise EOFError("stdin ended before the size of what was to come")
        size += byte
    data = bytearray()
    while len(data) < int(size):
        chunk = os.read(0, min(CHUNK, int(size) - len(data)))
        if not chunk:
            raise EOFError(f"stdin ended after {len(data)} of {int(size)} bytes")
        data += chunk
    return bytes(data)


def clear_locks(home: str) -> None:
    """Removes locks that a killed build left: `lock`, `lock_*` and `*.lock`, small files all, below one folder.

    Args:
        home: a folder of this agent's own; no other agent may be at work in it.
    """
    for folder, _, names in os.walk(home):
        for name in names:
            path = os.path.join(folder, name)
            if (name == "lock" or name.startswith("lock_") or name.endswith(".lock")) and not os.path.islink(path):
                with contextlib.suppress(OSError):
                    if os.path.getsize(path) <= LOCK_SIZE:
                        os.unlink(path)


def _private_folder() -> tuple[str, int]:
    """A folder for the zip, held by a lock while it is in use; folders whose holder is gone are removed first."""
    root = tempfile.gettempdir()
    for name in os.listdir(root):
        path = os.path.join(root, name)
        if name.startswith(PREFIX) and not os.path.islink(path):
            with contextlib.suppress(OSError):
                held = _hold(path)
                shutil.rmtree(path, ignore_errors=True)
                os.close(held)
    folder = tempfile.mkdtemp(prefix=PREFIX)
    return folder, _hold(folder)


def _hold(folder: str) -> int:
    """The lock of a folder.

    Raises:
        OSError: somebody holds it, or it is another user's.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _serve(mark: str, command: list[str], answers: int) -> int:
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=os.sep, start_new_session=True, bufsize=0)
    over = threading.Event()

    def end(*_: object) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)

    for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(name, end)
    threading.Thread(target=_pass_requests, args=(child.stdin.fileno(), over, end), daemon=True).start()
    reader = threading.Thread(target=_pass_answers, args=(child.stdout.fileno(), answers, mark), daemon=True)
    reader.start()
    status = _reap(child.pid)
    over.set()
    end()  # children that it left behind
    reader.join(GRACE)
    code = os.waitstatus_to_exitcode(status)
    _say(answers, mark, b"end %d" % code)
    return 128 - code if code < 0 else code


def _reap(pid: int) -> int:
    """How a child ended. Orphans that fell to this process are reaped on the way."""
    while True:
        gone, status = os.wait()
        if gone == pid:
            return status


def _pass_requests(target: int, over: threading.Event, end: object) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(0, CHUNK):
            while data:
                data = data[os.write(target, data) :]
    with contextlib.suppress(OSError):
        os.close(target)
    if not over.wait(GRACE):
        end()


def _pass_answers(source: int, answers: int, mark: str) -> None:
    buffer = b""
    while data := _read(source):
        *lines, buffer = (buffer + data).split(b"\n") if b"\n" in data else (buffer + data,)
        for line in lines:
            if line.startswith(b"{"):
                _say(answers, mark, line)
            else:  # printed before the agent took its descriptors: some images greet
                os.write(2, line + b"\n")


def _read(source: int) -> bytes:
    try:
        return os.read(source, CHUNK)
    except OSError:
        return b""


def _say(answers: int, mark: str, text: bytes) -> None:
    data = b"kvcheck:%s %s\n" % (mark.encode(), text)
    with contextlib.suppress(OSError):  # nobody listens any more: requests have ended too then
        while data:
            data = data[os.write(answers, data) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
