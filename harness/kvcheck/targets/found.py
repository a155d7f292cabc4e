"""An image that a range may hold, as it was found: among the local ones, in a list, or in a registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kvcheck.targets.tags import Tag


@dataclass(frozen=True)
class Found:
    """An image before it is a step of a range.

    Args:
        reference: what it is called: `repository:tag`, `repository@digest` or an id.
        id: digest of its configuration, which is the same here and in a registry; None until somebody has asked.
        tag: parts of its tag, or None where it has none that fits.
        created: when it was built, ISO 8601, or None.
        digest: of its manifest in a registry, or None.
        layers: digest and bytes of each layer as a registry sends it.
        local: whether this machine has it.
        labels: of the image.
        problem: why nothing is known of it.
    """

    reference: str
    id: str | None = None
    tag: Tag | None = None
    created: str | None = None
    digest: str | None = None
    layers: tuple[tuple[str, int], ...] = ()
    local: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None

    @property
    def day(self) -> str | None:
        """The day in its tag, ISO 8601."""
        return self.tag.date.isoformat() if self.tag and self.tag.date else None

    @property
    def variant(self) -> str:
        """What must not change along a range, as far as its tag says."""
        return self.tag.variant if self.tag else ""

    @property
    def label(self) -> str:
        """What people call it: its tag, else its reference; ids are shortened."""
        if self.tag:
            return self.tag.text
        _, _, last = self.reference.rpartition("/")
        return last.replace("sha256:", "")[:12] if "sha256:" in last and "@" not in last else last

    def merged(self, other: Found) -> Found:
        """This image with what only the other one knows of it; both are one image."""
        return replace(
            self,
            id=self.id or other.id,
            tag=self.tag or other.tag,
            created=self.created or other.created,
            digest=self.digest or other.digest,
            layers=self.layers or other.layers,
            local=self.local or other.local,
            labels=self.labels or other.labels,
            problem=None if self.id or other.id else self.problem,
        )
