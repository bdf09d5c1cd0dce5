"""What a careful user writes in an afternoon: Starlette with ONNX Runtime in the process, JSON and binary bodies.

Run by serving.py: ``MODEL=m.onnx uvicorn serving_starlette:app``.
"""

from __future__ import annotations

import json
import os

import numpy as np
import onnxruntime
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

_options = onnxruntime.SessionOptions()
_options.intra_op_num_threads = 1
_session = onnxruntime.InferenceSession(os.environ["MODEL"], _options, providers=["CPUExecutionProvider"])


async def infer(request: Request) -> Response:
    body = await request.body()
    length = request.headers.get("inference-header-content-length")
    document = json.loads(body[: int(length)] if length else body)
    entry = document["inputs"][0]
    if length:
        x = np.frombuffer(body, dtype=np.float32, offset=int(length)).reshape(entry["shape"])
    else:
        x = np.asarray(entry["data"], dtype=np.float32).reshape(entry["shape"])
    y = _session.run(None, {entry["name"]: x})[0]
    output = {"name": "logits", "datatype": "FP32", "shape": list(y.shape)}
    answer = {"model_name": request.path_params["model"], "model_version": "1", "outputs": [output]}
    if not length:
        output["data"] = y.ravel().tolist()
        return JSONResponse(answer)
    output["parameters"] = {"binary_data_size": y.nbytes}
    head = json.dumps(answer).encode()
    headers = {"inference-header-content-length": str(len(head))}
    return Response(head + y.tobytes(), headers=headers, media_type="application/octet-stream")


app = Starlette(routes=[Route("/v2/models/{model}/infer", infer, methods=["POST"])])
