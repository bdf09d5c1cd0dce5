"""One bundle: its variants, what was left out of it, and who serves it. Pure."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from fleet.http.api_types import BundleDetail, DeviceView, VariantView
from fleet.tui.glyphs import Glyphs
from fleet.tui.view_models import wording
from fleet.tui.view_models.bundle_rows import serving_counts
from fleet.tui.view_models.spans import BLANK, Line, Span, Tone
from fleet.tui.view_models.text_width import fit, paragraph

LABEL, SIZE, ACCURACY, DROP, DEVICES = 9, 9, 8, 8, 9


class BundleAnswer(NamedTuple):
    """What the page is made of."""

    detail: BundleDetail
    devices: list[DeviceView]


def bundle_lines(answer: BundleAnswer, width: int, now_ms: int, glyphs: Glyphs) -> list[Line]:
    """The page, in lines of at most ``width`` cells."""
    bundle = answer.detail.bundle
    signed = Span("  signed", Tone.GOOD) if bundle.signed else Span("  UNSIGNED", Tone.BAD)
    lines: list[Line] = [(Span(f"{bundle.name} {bundle.version}", Tone.STRONG), signed)]
    facts = (
        ("digest", bundle.digest),
        ("size", f"{wording.size(bundle.size_bytes)}, registered {wording.age(bundle.registered_ms, now_ms)} ago"),
        ("serves on", wording.count(serving_counts(answer.devices)[bundle.digest], "device")),
    )
    for label, value in facts:
        lines += paragraph((Span(fit(label, LABEL + 1, glyphs), Tone.FAINT),), value, width)
    lines += [BLANK, *_variants(answer, width, glyphs)]
    if answer.detail.left_out:
        lines += [BLANK, (Span("LEFT OUT", Tone.FAINT),)]
    for left_out in answer.detail.left_out:
        lines += paragraph((Span(f"{glyphs.bad} {left_out.name}: ", Tone.FAINT),), left_out.reason, width, hanging=2)
    return lines


def _variants(answer: BundleAnswer, width: int, glyphs: Glyphs) -> list[Line]:
    name = max(12, width - SIZE - ACCURACY - DROP - DEVICES)
    titles = fit("VARIANT", name, glyphs) + "".join(
        fit(title, room, glyphs, right=True)
        for title, room in (("SIZE", SIZE), ("ACC", ACCURACY), ("DROP", DROP), ("DEVICES", DEVICES))
    )
    chosen = _chosen_by(answer)
    lines: list[Line] = [(Span(titles, Tone.FAINT),)]
    return [*lines, *(_variant(each, chosen[each.name], name, glyphs) for each in answer.detail.variants)]


def _chosen_by(answer: BundleAnswer) -> Counter[str]:
    """By variant: how many devices serve this bundle with it."""
    return Counter(
        model.backend.variant
        for device in answer.devices
        for model in device.models
        if model.backend is not None and model.digest == answer.detail.bundle.digest
    )


def _variant(variant: VariantView, devices: int, name: int, glyphs: Glyphs) -> Line:
    accuracy = variant.accuracy
    cells = (
        (wording.size(variant.size_bytes), SIZE),
        (wording.share(accuracy.value if accuracy else None), ACCURACY),
        (wording.NONE if accuracy is None or accuracy.drop is None else f"{accuracy.drop:.4f}", DROP),
        (f"{devices:,}", DEVICES),
    )
    numbers = "".join(fit(text, room, glyphs, right=True) for text, room in cells)
    return (Span(fit(variant.name, name, glyphs), Tone.STRONG if devices else Tone.PLAIN), Span(numbers))
