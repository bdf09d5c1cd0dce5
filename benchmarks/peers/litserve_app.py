"""ONNX Runtime under LitServe: ``python litserve_app.py MODEL PORT``. Run in LitServe's environment."""

from __future__ import annotations

import sys
from typing import Any

import litserve
import numpy as np
import onnxruntime


class OnnxApi(litserve.LitAPI):
    def setup(self, device: str) -> None:  # noqa: ARG002 - the framework's signature
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])

    def decode_request(self, request):  # type: ignore[no-untyped-def]
        # without annotations, since LitServe makes a body's schema of them
        return {
            entry["name"]: np.asarray(entry["data"], dtype=np.float32).reshape(entry["shape"])
            for entry in request["inputs"]
        }

    def predict(self, feeds: dict[str, Any]) -> Any:
        return self._session.run(None, feeds)[0]

    def encode_response(self, output: Any) -> dict[str, Any]:
        entry = {"name": "y", "datatype": "FP32", "shape": list(output.shape), "data": output.ravel().tolist()}
        return {"outputs": [entry]}


if __name__ == "__main__":
    server = litserve.LitServer(OnnxApi(), accelerator="cpu", workers_per_device=1)
    server.run(host="127.0.0.1", port=int(sys.argv[2]), generate_client_file=False, log_level="error")
