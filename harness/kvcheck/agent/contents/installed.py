"""Metadata of installed packages, read as text: what is said to be here, where, and from what address."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

from kvcheck.agent.contents.reading import listed, text_of


def distributions() -> list[dict[str, Any]]:
    """Metadata folders along the path, the one that counts first: name, version, root, metadata, top (names it owns), url."""
    found = []
    for root in dict.fromkeys(os.path.abspath(entry) for entry in sys.path if os.path.isdir(entry)):
        for entry in sorted(os.listdir(root)):
            if not entry.endswith((".dist-info", ".egg-info", ".egg-link")):
                continue
            place = os.path.join(root, entry)
            if entry.endswith(".egg-link"):  # what `setup.py develop` leaves; the metadata lies in the sources
                linked = text_of(place).split("\n")[0].strip()
                found += [_metadata(os.path.join(linked, each), linked) for each in listed(linked) if each.endswith(".egg-info")]
            else:
                found.append(_metadata(place, root))
    return [entry for entry in found if entry["name"]]


def _metadata(place: str, root: str) -> dict[str, Any]:
    inside = place if os.path.isdir(place) else os.path.dirname(place)
    head = text_of(place) if os.path.isfile(place) else text_of(os.path.join(place, "METADATA")) or text_of(os.path.join(place, "PKG-INFO"))
    head = head.split("\n\n")[0]
    named = {key: re.search(rf"^{key}:\s*(.+?)\s*$", head, re.MULTILINE) for key in ("Name", "Version")}
    top = set(text_of(os.path.join(inside, "top_level.txt")).split()) if inside == place else set()
    if inside == place:
        top |= {line.split("/")[0].strip('"') for line in text_of(os.path.join(place, "RECORD")).splitlines() if "/" in line}
    try:
        url = json.loads(text_of(os.path.join(place, "direct_url.json")) or "{}")
    except ValueError:
        url = {}
    values = {key.lower(): match.group(1) if match else None for key, match in named.items()}
    return {**values, "root": root, "metadata": place, "top": top, "url": url}


def normal(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def points_at(entry: dict[str, Any], folder: str | None) -> bool:
    """Whether an editable install's metadata names the sources that a folder is part of."""
    url = str(entry["url"].get("url") or "")
    place = re.sub(r"^file://", "", url)
    return bool(folder and entry["url"].get("dir_info", {}).get("editable") and (folder + os.sep).startswith(place.rstrip("/") + os.sep))
