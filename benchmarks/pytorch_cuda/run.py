#!/usr/bin/env python3
"""rmsnorm and loss_prelude beside PyTorch, eager and compiled, in one interleaved run.

Needs one NVIDIA GPU, PyTorch and nvcc. See README.md beside this file.
"""

import argparse
import concurrent.futures
import ctypes
import json
import math
import pathlib
import statistics
import sys
import tempfile
import time
import traceback

import torch
import torch.nn.functional as F

sys.dont_write_bytecode = True  # leave nothing beside the sources

import check
import exact
from kernel_library import BACKWARD, FORWARD, ROOT, KernelLibrary, compile_cuda, dlpack_include

SOFTCAP = 15.0
EPS = check.EPS
TARGETS = ("rmsnorm", "loss_prelude")
SAMPLED_ROWS = 64


class Arm:
    """One thing that is timed: a callable, and the outputs that it leaves."""

    def __init__(self, name, call):
        self.name, self.call, self.ms = name, call, []


class StreamCeiling:
    def __init__(self, path):
        library = ctypes.CDLL(str(path))
        self.shapes = range(ctypes.c_int.in_dll(library, "stream_shapes").value)
        self.pass_ = library.stream_pass
        self.pass_.argtypes = [ctypes.c_int] + [ctypes.c_void_p] * 3
        self.pass_.argtypes += [ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p]

    def call(self, shape, a, b, out, writes):
        def run():
            code = self.pass_(
                shape,
                a.data_ptr(),
                b.data_ptr() if b is not None else None,
                out.data_ptr(),
                int(writes),
                a.numel() * a.element_size(),
                torch.cuda.current_stream().cuda_stream,
            )
            if code != 0:
                raise RuntimeError(f"stream_pass: CUDA error {code}")

        return run


def torch_rmsnorm(x):
    return F.rms_norm(x, (x.shape[-1],), eps=EPS)


def torch_loss(logits, targets):
    capped = SOFTCAP * torch.tanh(logits.float() / SOFTCAP)
    return F.cross_entropy(capped, targets, ignore_index=-1, reduction="sum")


def rmsnorm_setup(shape, dtype, _):
    x, dy = (torch.randn(shape, device="cuda").to(dtype) for _ in range(2))
    y, dx = torch.empty_like(x), torch.empty_like(x)

    def ours(library):
        forward = library.operation(FORWARD, [x, None], [y], [EPS])
        return forward, library.operation(BACKWARD, [dy, x, None], [dx, None], [EPS], forward)

    def verify():
        rows = torch.randint(0, shape[0], (SAMPLED_ROWS,), device="cuda")
        want = exact.rmsnorm_forward(x[rows], None, EPS)
        worst = exact.worst_fraction(y[rows], *want, shape[1])
        want = exact.rmsnorm_backward(dy[rows], x[rows], None, EPS, None)[:2]
        return max(worst, exact.worst_fraction(dx[rows], *want, shape[1]))

    return {
        "ours": ours,
        "verify": verify,
        "outputs": [y, dx],
        "torch": torch_rmsnorm,
        "torch_inputs": [x],
        "gradient": dy,
        "streams": {"forward": (x, None, y, True), "backward": (dy, x, dx, True)},
    }


def loss_setup(shape, dtype, scale):
    logits = (torch.randn(shape, device="cuda") * scale).to(dtype)
    targets = torch.randint(0, shape[1], (shape[0],), dtype=torch.int32, device="cuda")
    token_bytes = torch.randint(0, 17, (shape[1],), dtype=torch.int32, device="cuda")
    nll = torch.empty(shape[0], device="cuda")
    sums = [torch.empty(1, dtype=torch.float64, device="cuda") for _ in range(2)]
    dlogits = torch.empty_like(logits)
    g = torch.ones(1, device="cuda")

    def ours(library):
        inputs = [logits, targets, token_bytes]
        forward = library.operation(FORWARD, inputs, [nll, *sums], [SOFTCAP])
        return forward, library.operation(
            BACKWARD, [g, logits, targets], [dlogits], [SOFTCAP], forward
        )

    def verify():
        rows = torch.randint(0, shape[0], (SAMPLED_ROWS,), device="cuda")
        want = exact.Loss(logits[rows], targets[rows], SOFTCAP)
        worst = exact.worst_fraction(nll[rows], want.nll, want.nll_terms, shape[1])
        if abs(float(sums[0]) - float(nll.double().sum())) > 1e-11 * abs(float(sums[0])):
            return math.inf
        return max(worst, exact.worst_fraction(dlogits[rows], *want.gradient(1.0), shape[1]))

    return {
        "ours": ours,
        "verify": verify,
        "outputs": [nll, *sums, dlogits],
        "torch": torch_loss,
        "torch_inputs": [logits, targets.long()],
        "gradient": torch.ones((), device="cuda"),
        "streams": {
            "forward": (logits, None, dlogits, False),
            "backward": (logits, None, dlogits, True),
        },
    }


SETUPS = {"rmsnorm": rmsnorm_setup, "loss_prelude": loss_setup}
SHAPES = {"rmsnorm": (262144, 512), "loss_prelude": (32768, 8192)}


def torch_arms(name, function, inputs, gradient):
    """Forward and backward of a PyTorch function; the graph of backward is kept between calls."""
    leaf = inputs[0].detach().requires_grad_()
    rest = inputs[1:]
    loss = function(leaf, *rest)

    def forward():
        function(leaf, *rest)

    def backward():
        torch.autograd.grad(loss, leaf, gradient, retain_graph=True)

    forward()
    backward()
    torch.cuda.synchronize()
    return Arm(name, forward), Arm(name, backward)


def measure(arms, rounds, flush):
    """Interleaved, each round in another order; L2 cleared, the launch hidden behind a wait."""
    for arm in arms:
        for _ in range(3):
            arm.call()
    torch.cuda.synchronize()
    for round_ in range(rounds):
        shift = round_ % len(arms)
        events = []
        for arm in arms[shift:] + arms[:shift]:
            flush.zero_()
            torch.cuda._sleep(300_000)  # the host is ahead when the clock starts
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            arm.call()
            end.record()
            events.append((arm, start, end))
        torch.cuda.synchronize()
        for arm, start, end in events:
            arm.ms.append(start.elapsed_time(end))


def summary(arms, ours, footprint_bytes):
    """Medians; ratios are medians over rounds of (other / ours)."""
    rows = []
    for arm in arms:
        ordered = sorted(arm.ms)
        rows.append(
            {
                "arm": arm.name,
                "median_ms": statistics.median(ordered),
                "p10_ms": ordered[len(ordered) // 10],
                "p90_ms": ordered[len(ordered) * 9 // 10],
                "over_ours": statistics.median(a / b for a, b in zip(arm.ms, ours.ms)),
                "bytes_per_s": footprint_bytes / statistics.median(ordered) * 1e3,
            }
        )
    return rows


def benchmark(target, dtype, scale, variants, ceiling, rounds, flush, record):
    setup = SETUPS[target](SHAPES[target], dtype, scale)
    entry = {"target": target, "dtype": str(dtype).removeprefix("torch."), "shape": SHAPES[target],
             "scale": scale}
    entry["errors"], entry["operations"] = [], {}
    record["benchmarks"].append(entry)
    arms = {"forward": [], "backward": []}
    for name, library in variants.items():
        try:
            for output in setup["outputs"]:
                check.poison(output)
            forward, backward = setup["ours"](library)
            forward.run()
            backward.run()
            torch.cuda.synchronize()
            entry[f"worst_of_bound {name}"] = setup["verify"]()
            arms["forward"].append(Arm(name, forward.run))
            arms["backward"].append(Arm(name, backward.run))
        except Exception as error:
            entry["errors"].append(f"{name}: {type(error).__name__}: {error}")
    for name, wrap in (("eager", lambda f: f), ("compiled", torch.compile)):
        try:
            function = wrap(setup["torch"])
            pair = torch_arms(name, function, setup["torch_inputs"], setup["gradient"])
            arms["forward"].append(pair[0])
            arms["backward"].append(pair[1])
        except Exception as error:
            entry["errors"].append(f"{name}: {type(error).__name__}: {str(error)[:400]}")
    for operation, stream in setup["streams"].items():
        a, b, _, writes = stream
        footprint = a.numel() * a.element_size() * (1 + (b is not None) + writes)
        ceilings = [Arm(f"ceiling {i}", ceiling.call(i, *stream)) for i in ceiling.shapes]
        every = arms[operation] + ceilings
        try:
            measure(every, rounds, flush)
            best = min(ceilings, key=lambda arm: statistics.median(arm.ms))
            entry.setdefault("ceiling_shapes", {})[operation] = {
                arm.name: statistics.median(arm.ms) for arm in ceilings
            }
            best.name = "ceiling"
            every = arms[operation] + [best]
            entry["operations"][operation] = {
                "footprint_bytes": footprint,
                "arms": summary(every, every[0], footprint),
            }
        except Exception as error:
            entry["errors"].append(f"{operation}: {type(error).__name__}: {error}")
    del setup, arms
    torch.cuda.empty_cache()


def print_tables(record):
    for entry in record["benchmarks"]:
        shape = "x".join(map(str, entry["shape"]))
        print(f"\n{entry['target']} [{shape}] {entry['dtype']}, inputs of scale {entry['scale']:g}")
        print(f"  {'arm':<22}{'forward ms':>12}{'backward ms':>12}{'sum ms':>9}{'of ours':>9}"
              f"{'ceiling %':>16}")
        both = [{a["arm"]: a for a in entry["operations"].get(o, {}).get("arms", [])}
                for o in ("forward", "backward")]
        ours = next(iter(both[0]), None)
        for name in both[0]:
            if not all(name in side for side in both):
                continue
            times = [side[name]["median_ms"] for side in both]
            base = sum(side[ours]["median_ms"] for side in both)
            percent = [100 * side["ceiling"]["median_ms"] / side[name]["median_ms"] for side in both]
            print(f"  {name:<22}{times[0]:>12.4f}{times[1]:>12.4f}{sum(times):>9.4f}"
                  f"{sum(times) / base:>9.3f}{percent[0]:>9.1f}{percent[1]:>7.1f}")
        for key, value in entry.items():
            if key.startswith("worst_of_bound"):
                print(f"  {key}: {value:.3f}{'' if value <= 1 else '   WRONG'}")
        for error in entry["errors"]:
            print(f"  failed: {error}")


def build(arguments, record):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pytorch-cuda-"))
    include = dlpack_include()
    jobs = {("ceiling", ""): (pathlib.Path(__file__).with_name("stream_ceiling.cu"), [])}
    for target in arguments.targets.split(","):
        jobs[(target, "ours")] = (ROOT / "targets" / target / "kernel.cu", [])
        jobs[(target, "reference")] = (ROOT / "targets" / target / "reference.cu", [])
    for text in arguments.variant:
        name, target, flags = text.split(":", 2)
        jobs[(target, name)] = (ROOT / "targets" / target / "kernel.cu", flags.split())
    for text in arguments.edit:
        name, target, old, new = text.split(":")
        source = (ROOT / "targets" / target / "kernel.cu").read_text()
        if source.count(old) != 1:
            record["errors"].append(f"--edit {text}: {old!r} is {source.count(old)} times in kernel.cu")
            continue
        edited = folder / f"{target}-{name}.cu"
        edited.write_text(source.replace(old, new))
        jobs[(target, name)] = (edited, [])
    built = {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=8) as pool:
        futures = {
            key: pool.submit(compile_cuda, source, folder / f"{i}.so", include, flags)
            for i, (key, (source, flags)) in enumerate(jobs.items())
        }
        for key, future in futures.items():
            try:
                path = future.result()
                built[key] = StreamCeiling(path) if key[0] == "ceiling" else KernelLibrary(path)
            except Exception as error:
                record["errors"].append(f"{' '.join(key)}: {error}")
    return built


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="pytorch_cuda.json", help="the record, as JSON")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--dtypes", default="bfloat16,float32")
    parser.add_argument("--skip-check", action="store_true", help="time only")
    parser.add_argument("--check-only", action="store_true")
    parser.add_argument("--variant", action="append", default=[], metavar="NAME:TARGET:FLAGS",
                        help="time kernel.cu compiled with more nvcc flags too")
    parser.add_argument("--edit", action="append", default=[], metavar="NAME:TARGET:OLD:NEW",
                        help="time kernel.cu with OLD replaced by NEW too")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--logit-scales", default="2", help="standard deviations of the logits")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("no NVIDIA GPU is visible to PyTorch: run this where one is", file=sys.stderr)
        return 5
    try:
        import torch._functorch.config as autograd_config

        autograd_config.donated_buffer = False  # a kept graph needs its buffers again
    except (ImportError, AttributeError):
        pass  # an older PyTorch donates nothing
    torch.manual_seed(0)
    started = time.time()
    record = {"torch": torch.__version__, "device": torch.cuda.get_device_name(),
              "rounds": arguments.rounds, "variants": arguments.variant + arguments.edit,
              "errors": [], "checks": [], "benchmarks": []}
    built = build(arguments, record)
    print(f"{record['device']}, PyTorch {record['torch']}; built in {time.time() - started:.0f} s")
    if not arguments.skip_check:
        for (target, name), library in built.items():
            if target in TARGETS:
                cases = check.check_library(target, library)
                record["checks"] += [{"library": name, **case} for case in cases]
                wrong = [case for case in cases if case["wrong"]]
                worst = max((c["worst_of_bound"] for c in cases if not c["wrong"]), default=math.nan)
                print(f"check {target} {name}: {len(cases) - len(wrong)} of {len(cases)} cases right, "
                      f"largest error {worst:.2f} of its bound")
                for case in wrong[:12]:
                    print(f"  WRONG {case['case']}: {case['wrong']}")
        print(f"checked after {time.time() - started:.0f} s", flush=True)
    if not arguments.check_only:
        flush = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
        for dtype in arguments.dtypes.split(","):
            for target in arguments.targets.split(","):
                variants = {name: lib for (t, name), lib in built.items() if t == target}
                scales = arguments.logit_scales if target == "loss_prelude" else "1"
                for scale in map(float, scales.split(",")):
                    try:
                        benchmark(target, getattr(torch, dtype), scale, variants,
                                  built[("ceiling", "")], arguments.rounds, flush, record)
                    except Exception:
                        record["errors"].append(traceback.format_exc())
        print_tables(record)
    for error in record["errors"]:
        print(f"failed: {error}")
    record["wall_s"] = time.time() - started
    pathlib.Path(arguments.output).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    print(f"\n{record['wall_s']:.0f} s; record: {arguments.output}")
    failed = record["errors"] or any(c["wrong"] for c in record["checks"]) or any(
        e["errors"] for e in record["benchmarks"])
    return 3 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
