"""The engine process, ``ENV/bin/python -m agent.engine``: holds models open in their runtimes and runs requests.

It is started by the server (agent.serving.engine_process), takes commands from its control socket and ends when that
closes. Each opened model has a thread and a data socket of its own, so that a slow model does not hold up a fast one
and loading does not hold up either. Contract of the messages: agent.serving.engine_wire.
"""

from __future__ import annotations

import argparse
import mmap
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import msgspec
import numpy as np

from agent.errors import BackendError
from agent.inference.bundle_folder import open_bundle_folder
from agent.inference.registry import backend
from agent.inference.session import ModelSession, open_session
from agent.parent_death import end_with_parent
from agent.serving.arena import map_memory
from agent.serving.engine_wire import Open, Opened, OpenFailed
from agent.serving.framing import BlockingFrames, frame
from agent.serving.session_worker import Array, SessionWorker
from edge_contracts.errors import ContractError
from edge_contracts.golden import decode_goldens
from edge_contracts.parity import to_array
from edge_contracts.tensor_signature import Signature

TIMED_RUNS = 3


class Engine:
    """Opens models as told. ``requests``: the server's request memory."""

    def __init__(
        self, control: socket.socket, handover: socket.socket, requests: mmap.mmap, cache_dir: Path | None
    ) -> None:
        self._control = control
        self._handover = handover
        self._requests = requests
        self._cache_dir = cache_dir

    def serve(self) -> None:
        """Until the server closes the control socket."""
        decoder = msgspec.msgpack.Decoder(Open)
        frames = BlockingFrames(self._control)
        while (found := frames.next()) is not None:
            self._control.sendall(frame(msgspec.msgpack.encode(self._open(decoder.decode(found)))))

    def _open(self, order: Open) -> Opened | OpenFailed:
        _, descriptors, _, _ = socket.recv_fds(self._handover, 1, 2)
        data, answers = socket.socket(fileno=descriptors[0]), descriptors[1]
        try:
            memory = map_memory(answers, order.answer_bytes, writable=True)
            session, signature, warm_ms = self._warm_session(order)
            provider = session.provider
        except (BackendError, ContractError, OSError) as error:
            data.close()
            return OpenFailed(order.session, _one_line(error))
        except Exception as error:  # noqa: BLE001 - a foreign plug-in may raise anything; the other models go on
            data.close()
            return OpenFailed(order.session, f"{type(error).__name__}: {_one_line(error)}")
        finally:
            os.close(answers)
        worker = SessionWorker(session, signature, data, self._requests, memory)
        threading.Thread(target=worker.serve, name=f"session-{order.session}", daemon=True).start()
        return Opened(order.session, provider, warm_ms)

    def _warm_session(self, order: Open) -> tuple[ModelSession, Signature, float]:
        folder = open_bundle_folder(Path(order.folder))
        variant = folder.bundle.variant(order.variant)
        if variant is None:
            raise BackendError(order.variant, f"is no variant of the bundle in {order.folder}")
        runtime = backend(variant.spec.runtime, cache_dir=self._cache_dir)
        session = open_session(runtime, folder, variant, order.options)
        try:
            session.warm_up()
            sample = {
                name: np.resize(array, order.shapes.get(name, array.shape))
                for name, array in _first_golden(folder.goldens_file).items()
            }
            warm_ms = _fastest_ms(session, sample)
            for size in order.batch_sizes:
                session.infer({name: np.repeat(array[:1], size, axis=0) for name, array in sample.items()})
            session.check_provider()
        except BaseException:
            session.close()
            raise
        return session, folder.bundle.spec.signature, warm_ms


def _first_golden(goldens_file: Path) -> dict[str, Array]:
    goldens = decode_goldens(goldens_file.read_bytes())
    return {tensor.name: to_array(tensor) for tensor in goldens[0].inputs} if goldens else {}


def _fastest_ms(session: ModelSession, sample: dict[str, Array]) -> float:
    """The best of a few runs: 0.0 when there is no golden to run."""
    times: list[float] = []
    for _ in range(TIMED_RUNS if sample else 0):
        started = perf_counter()
        session.infer(sample)
        times.append((perf_counter() - started) * 1e3)
    return min(times, default=0.0)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:1000]


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of the process; arguments are inherited descriptors."""
    parser = argparse.ArgumentParser(prog="agent.engine", description="Started by the server, not by hand.")
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--handover", type=int, required=True)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--request-bytes", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--cache-dir", type=Path)
    args = parser.parse_args(argv)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the server decides when to stop, after its clients are served
    end_with_parent(args.parent)
    requests = map_memory(args.requests, args.request_bytes, writable=False)
    os.close(args.requests)
    control, handover = socket.socket(fileno=args.control), socket.socket(fileno=args.handover)
    try:
        Engine(control, handover, requests, args.cache_dir).serve()
    except OSError as error:
        print(f"engine: {error}", file=sys.stderr)  # noqa: T201
    sys.stderr.flush()
    os._exit(0)  # destructors of runtimes may hang or abort; nothing here needs them


if __name__ == "__main__":
    main()
