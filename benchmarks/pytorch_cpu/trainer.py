"""kernel-lab-train from Python: its answers, and the files that `differentiate` writes."""

import json
import os
import pathlib
import struct
import subprocess
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
DTYPES = {"F32": torch.float32, "F64": torch.float64, "I32": torch.int32}


def environment(threads):
    """So many threads for everybody; nothing that makes OpenBLAS take another core's kernels."""
    kept = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    return {**kept, "OMP_NUM_THREADS": str(threads)}


def add_choice(parser):
    """The flags that say which trainer, and what of it."""
    parser.add_argument("--trainer", default=ROOT / "build/bin/kernel-lab-train")
    parser.add_argument("--preset", default="cpu-balanced")
    parser.add_argument("--set", action="append", default=[], help="a field of the preset, key=value; repeatable")
    parser.add_argument("--threads", type=int, default=2)


class Trainer:
    def __init__(self, program, preset, settings, threads):
        self.program = pathlib.Path(program)
        if not self.program.is_file():
            sys.exit(f"no {program}\n  build it (scripts/setup), or give --trainer")
        self.choice = ["--preset", preset]
        for setting in [*settings, f"threads={threads}"]:
            self.choice += ["--set", setting]
        self.threads = threads

    def call(self, verb, *arguments, settings=()):
        """Its standard output; None and the reason on standard error when it refuses."""
        command = [self.program, verb, *self.choice, *arguments]
        for setting in settings:
            command += ["--set", setting]
        return subprocess.run(command, env=environment(self.threads), capture_output=True, text=True)

    def must(self, verb, *arguments, settings=()):
        done = self.call(verb, *arguments, settings=settings)
        if done.returncode != 0:
            sys.exit(f"{verb} {' '.join(map(str, arguments))}: {done.stderr.strip()}")
        return done.stdout


class Derivative:
    """A file of `differentiate`: config, tensors by name, gradients by the names of their weights."""

    def __init__(self, path):
        data = bytearray(pathlib.Path(path).read_bytes())
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        self.config = json.loads(header.pop("__metadata__")["config"])
        self.weights, self.gradients = {}, {}
        named = {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            dtype = DTYPES[entry["dtype"]]
            count = (end - begin) // dtype.itemsize
            values = torch.frombuffer(data, dtype=dtype, count=count, offset=8 + length + begin)
            named[name] = values.view(entry["shape"])
        self.loss = named.pop("loss").item()
        self.tokens, self.targets = named.pop("tokens").long(), named.pop("targets").long()
        for name, tensor in named.items():
            if name.startswith("gradient."):
                self.gradients[name.removeprefix("gradient.")] = tensor
            else:
                self.weights[name] = tensor
