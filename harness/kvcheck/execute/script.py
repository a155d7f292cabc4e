"""The shell script that comes first wherever an agent is not a child of kvcheck: it finds the Python that imports torch."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files

from kvcheck.execute.launch import DROPPED, MARK

CANDIDATES = (
    "python3", "python", '"$VIRTUAL_ENV/bin/python3"', '"$CONDA_PREFIX/bin/python3"', "/opt/venv/bin/python3", "/opt/conda/bin/python3",
    "/opt/conda/envs/*/bin/python3", "/opt/*/bin/python3", "/opt/*/*/bin/python3", "/*/.venv/bin/python3", "/*/venv/bin/python3",
    "/*/*/.venv/bin/python3", "/usr/local/bin/python3", "/usr/bin/python3",
    "python3.14", "python3.13", "python3.12", "python3.11", "python3.10",
)  # fmt: skip
"""Where a Python with torch may be, in the order in which they are asked; the first that imports torch is taken."""

AGE = "import sys\nassert sys.version_info >= (3, 10), 'Python %d.%d is older than 3.10' % sys.version_info[:2]\n"
LOOK = (
    AGE + "from importlib.util import find_spec\nspec = find_spec('torch')\n"
    "if not (spec and spec.origin): raise ModuleNotFoundError('it has no torch')\nprint(sys.prefix)"
)
ASK = AGE + "import torch"

LOADER = """import os
size = b''
while not size.endswith(b'\\n'):
    byte = os.read(0, 1)
    if not byte: raise SystemExit('stdin ended')
    size += byte
text = b''
while len(text) < int(size):
    chunk = os.read(0, int(size) - len(text))
    if not chunk: raise SystemExit('stdin ended')
    text += chunk
exec(compile(text, 'kvcheck-boot', 'exec'))
"""
"""Runs what comes on stdin behind a line with its size: how the second program gets to where there is no file of it."""

SEARCH = r"""
found=
have=
count=0
seen=:
for word in @CANDIDATES@; do
  path=$(command -v "$word" 2>/dev/null) || continue
  case $seen in *":$path:"*) continue;; esac
  seen="$seen$path:"
  if why=$("$path" -c "$look" 2>&1 </dev/null); then
    case $seen in *":${why##*
}:"*) continue;; esac
    seen="$seen${why##*
}:"
    have="$have $path"
    count=$((count + 1))
    found=$path
  else
    say "tried $path: ${why##*
}"
  fi
done
if [ "$count" -gt 1 ]; then
  found=
  for path in $have; do
    if why=$("$path" -c "$ask" 2>&1 </dev/null); then found=$path; break; fi
    say "tried $path: ${why##*
}"
  done
fi
if [ -z "$found" ]; then say nopython; exit 3; fi
say "python $found"
"""
"""Where one environment alone has torch, the agent's own import of it is the proof: that takes seconds, and is not done twice."""


def script(
    mark: str,
    arguments: Sequence[str],
    *,
    archive: str = "-",
    boot: str | None = None,
    answers: str | None = None,
    python: str | None = None,
    asked: str | None = None,
    variables: Mapping[str, str | None] | None = None,
    threads: int = 1,
    clear_locks: bool = False,
) -> str:
    """A POSIX shell script that ends in an agent.

    Args:
        mark: names the agent; every line that is said for kvcheck begins with it.
        arguments: the agent's options.
        archive: where the zip is; `-` when it comes on stdin.
        boot: where `agent/boot.py` is; None when it comes on stdin too, before the zip, once the script says `boot`.
        answers: file that answers are written to; None is stdout.
        python: interpreter to take, known to do; None looks for one that imports torch.
        asked: the only interpreter to look at, as the user named it.
        variables: set for the agent; None takes one away.
        threads: what OMP_NUM_THREADS is where it is not set.
        clear_locks: whether locks of killed builds are removed from HOME.
    """
    given = dict(variables or {})
    lines = [f"exec >>{shlex.quote(answers)}" if answers else "", f'say() {{ printf "kvcheck:{mark} %s\\n" "$1"; }}']
    gone = [*DROPPED, *(name for name, value in given.items() if value is None)]
    lines.append(f"unset {' '.join(gone)}")
    lines.append(f"export PYTHONUNBUFFERED=1 PYTHONHASHSEED=0 {MARK}={mark} OMP_NUM_THREADS=${{OMP_NUM_THREADS:-{threads}}}")
    lines += [f"export {name}={shlex.quote(value)}" for name, value in given.items() if value is not None]
    lines.append("cd /")
    lines += [f"found={shlex.quote(python)}"] if python else _search(asked)
    if boot is None:
        lines.append("say boot")
    program = ["-c", LOADER] if boot is None else [boot]
    words = [*program, mark, archive, "clear" if clear_locks else "keep", *arguments]
    lines.append(f'exec "$found" {shlex.join(words)}')
    return "\n".join(line for line in lines if line) + "\n"


def boot_source() -> bytes:
    """The text of `agent/boot.py`."""
    return files("kvcheck.agent").joinpath("boot.py").read_bytes()


def find_script(mark: str) -> str:
    """A script that says which Python there is, and ends."""
    return "\n".join([f'say() {{ printf "kvcheck:{mark} %s\\n" "$1"; }}', *_search(None)]) + "\n"


def _search(asked: str | None) -> list[str]:
    text = SEARCH.replace("@CANDIDATES@", shlex.quote(asked) if asked else " ".join(CANDIDATES))
    if asked:  # of many places that may have one, those that are not there are not worth a word
        text = text.replace("|| continue", '|| { say "tried $word: it is not there"; continue; }')
    return [f"look={shlex.quote(LOOK)}", f"ask={shlex.quote(ASK)}", text.strip()]
