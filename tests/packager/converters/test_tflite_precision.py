from __future__ import annotations

from packager.converters.tflite_precision import require_full_precision

ENTRY = b"\x19\0\0\0reduced_precision_support\0"


def test_the_permission_for_half_precision_goes_and_every_other_byte_stays() -> None:
    model = b"\x1c\0\0\0TFL3" + ENTRY + b"fp16accfp32" + bytes(range(256))
    changed = require_full_precision(model)
    assert b"reduced_precision_support" not in changed
    assert len(changed) == len(model)
    assert changed[:8] + changed[8 + len(ENTRY) :] == model[:8] + model[8 + len(ENTRY) :]


def test_a_model_without_the_entry_is_unchanged() -> None:
    model = b"\x1c\0\0\0TFL3" + b"reduced_precision_support is text within a weight"
    assert require_full_precision(model) == model
