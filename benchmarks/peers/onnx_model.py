"""ONNX Runtime as an MLServer runtime, as its documentation shows one. Run in MLServer's environment."""

from __future__ import annotations

import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse
from mlserver.utils import get_model_uri


class OnnxModel(MLModel):
    async def load(self) -> bool:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        uri = await get_model_uri(self.settings)
        self._session = onnxruntime.InferenceSession(uri, options, providers=["CPUExecutionProvider"])
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        feeds = {entry.name: NumpyCodec.decode_input(entry) for entry in payload.inputs}
        results = self._session.run(None, feeds)
        names = [output.name for output in self._session.get_outputs()]
        outputs = [NumpyCodec.encode_output(name, array) for name, array in zip(names, results, strict=True)]
        return InferenceResponse(model_name=self.name, outputs=outputs)
