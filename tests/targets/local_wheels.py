"""Wheels and an index made by the test: a package whose answer changes from one version to the next."""

from __future__ import annotations

import base64
import hashlib
import http.server
import threading
import urllib.parse
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def wheel(
    folder: Path,
    version: str,
    files: Mapping[str, str],
    *,
    name: str = "kvc_planted",
    tag: str = "py3-none-any",
    requires: tuple[str, ...] = (),
) -> Path:
    """Writes one wheel.

    Args:
        folder: where to.
        version: its version, with a local part or without.
        files: text by path.
        name: of the distribution.
        tag: of Python and platform.
        requires: what it depends on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", *(f"Requires-Dist: {each}\n" for each in requires)]
    inside = {**files, f"{info}/METADATA": "".join(lines), f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n"}
    record = "".join(f"{path},sha256={_hash(text)},{len(text.encode())}\n" for path, text in inside.items())
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, text in inside.items():
            archive.writestr(inner, text)
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return path


@contextmanager
def index(folder: Path, withdrawn: Mapping[str, str]) -> Iterator[str]:
    """Serves a folder of wheels of one package as an index; its address.

    Args:
        folder: of wheels.
        withdrawn: reason by file name.
    """

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            file = folder / Path(urllib.parse.unquote(self.path)).name
            if file.suffix == ".whl":
                body = file.read_bytes()
            elif self.path.startswith("/simple/kvc-planted"):
                body = "".join(self._row(each) for each in sorted(folder.glob("*.whl"))).encode()
            else:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream" if file.suffix == ".whl" else "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _row(self, file: Path) -> str:
            yanked = f' data-yanked="{withdrawn[file.name]}"' if file.name in withdrawn else ""
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            return f'<a href="/files/{file.name.replace("+", "%2B")}#sha256={digest}"{yanked}>{file.name}</a>\n'

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/simple"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
