"""Any source that OpenVINO reads -> OpenVINO IR in int8 by NNCF's post-training quantisation.

Options: ``preset`` mixed (default) | performance; ``ranges`` minmax (default) | percentile; ``bias`` fast (default) |
accurate: how the shift of means is corrected.
Source: https://docs.openvino.ai, "Quantizing models post-training"
"""

from __future__ import annotations

import logging
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from packager.converters import openvino_file
from packager.converters.converter import ConversionJob, Converted, Needs, Progress
from packager.errors import ConverterError
from packager.samples import read_rows

MAX_SUBSET = 300
"""NNCF's own default; more samples no longer change the ranges, they only take time."""


class OpenVinoInt8:
    """See the module."""

    name = "openvino_int8"
    needs = Needs(modules=("openvino", "nncf"), pip_line="pip install 'mindedge[openvino]'", calibration=True)
    spawns_own_process = False

    def convert(self, job: ConversionJob, progress: Progress) -> Converted:
        """Raises ConverterError when nothing was quantised, and what OpenVINO and NNCF raise."""
        model = openvino_file.fix_shapes(openvino_file.read(Path(job.model)), job.fixed_shapes)
        import nncf

        nncf.set_log_level(logging.ERROR)
        rows = read_rows(Path(job.calibration))
        subset = min(len(rows), MAX_SUBSET)
        progress(f"calibrating on {subset} samples")
        preset = getattr(nncf.QuantizationPreset, job.options.get("preset", "mixed").upper())
        quantized = nncf.quantize(
            model, nncf.Dataset(rows), subset_size=subset, preset=preset,
            fast_bias_correction=job.options.get("bias") != "accurate",
            advanced_parameters=_advanced(nncf, job.options),
        )  # fmt: skip
        if not any(operation.get_type_name() == "FakeQuantize" for operation in quantized.get_ops()):
            raise ConverterError(self.name, "found nothing to quantise in this model")
        entry = openvino_file.save(quantized, Path(job.out))
        return Converted(entry=entry, tools={name: version(name) for name in ("openvino", "nncf")})


def _advanced(nncf: Any, options: dict[str, str]) -> Any:
    """Activation ranges by the 0.1 and 99.9 percentiles instead of the extremes."""
    if options.get("ranges") != "percentile":
        return None
    from nncf.quantization.range_estimator import RangeEstimatorParameters, RangeEstimatorParametersSet, StatisticsType

    template = RangeEstimatorParametersSet.MEAN_MINMAX
    low = replace(template.min, statistics_type=StatisticsType.QUANTILE, quantile_outlier_prob=1e-3)
    high = replace(template.max, statistics_type=StatisticsType.QUANTILE, quantile_outlier_prob=1e-3)
    return nncf.AdvancedQuantizationParameters(activations_range_estimator_params=RangeEstimatorParameters(low, high))
