"""The colours of report.html: readable on their ground, and apart for readers who see fewer of them."""

from __future__ import annotations

import pytest

from kvcheck.report._html import palette


@pytest.mark.parametrize("theme", ["LIGHT", "DARK"])
def test_text_can_be_read_on_its_ground(theme):
    colours = getattr(palette, theme)
    for front, back in palette.READ_ON:
        assert palette.contrast(colours[front], colours[back]) >= 4.5, (front, back, palette.contrast(colours[front], colours[back]))
    for front, back in palette.SEEN_ON:
        assert palette.contrast(colours[front], colours[back]) >= 3, (front, back, palette.contrast(colours[front], colours[back]))


def test_contrast_is_that_of_the_standard():
    assert palette.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert palette.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


# Machado, Oliveira, Fernandes 2009, severity 1: linear RGB as seen without red, green or blue cones.
BLIND = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def oklab(colour, seen):
    """A colour as somebody sees it, in a space where distances are those of the eye (Ottosson 2020)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    r, g, b = [min(max(sum(m * p for m, p in zip(row, linear, strict=True)), 0), 1) for row in seen]
    cones = (
        0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b,
        0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b,
        0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b,
    )
    long, middle, short = (cone ** (1 / 3) for cone in cones)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


@pytest.mark.parametrize("theme", ["LIGHT", "DARK"])
@pytest.mark.parametrize("sight", BLIND)
def test_verdicts_stay_apart_for_colour_blind_readers(theme, sight):
    colours = getattr(palette, theme)
    for one, other in (("pass", "fail"), ("pass", "broken"), ("fail", "broken"), ("used", "fail")):
        sides = [oklab(colours[name], BLIND[sight]) for name in (one, other)]
        distance = sum((a - b) ** 2 for a, b in zip(*sides, strict=True)) ** 0.5
        assert distance > 0.08, (one, other, distance)
