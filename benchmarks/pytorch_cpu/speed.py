#!/usr/bin/env python3
"""Tokens a second of the trainer and of the same model in PyTorch, fp32 on the CPU, in turns in one run.

A step is forward, backward and the update by AdamW with the trainer's groups, on the trainer's own first
batches. Each way of running it has a process of its own; in every round each takes one turn of some steps
while the others wait. See README.md beside this file.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import pathlib
import platform
import statistics
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # leave nothing beside the sources

from trainer import Derivative, Trainer, add_choice, environment

# How PyTorch runs the step: attention, and the mode of torch.compile (None: eager).
ARMS = {
    "eager, sdpa": ("sdpa", None),
    "eager, products": ("products", None),
    "compiled, sdpa": ("sdpa", "default"),
    "compiled, products": ("products", "default"),
    "compiled, flex": ("flex", "default"),
    "max-autotune, sdpa": ("sdpa", "max-autotune-no-cudagraphs"),
    "max-autotune, products": ("products", "max-autotune-no-cudagraphs"),
}
STEPS_OF_DATA = 16  # PyTorch sees these over and over


def optimiser(config, weights):
    """AdamW without decay: a group for each rate, as trainer/optimiser.cpp has them."""
    import torch

    width_factor = (config["width"] / 768) ** -0.5
    groups = {}
    for name, weight in weights.items():
        rate, beta1 = config["lr_matrix"], config["beta1"]
        if name == "lm_head":
            rate = config["lr_head"] * width_factor
        elif name == "wte":
            rate = config["lr_embedding"] * width_factor
        elif name.endswith(".ve"):
            rate = config["lr_value_embedding"] * width_factor
        elif name == "lambda":
            rate = config["lr_lambda"]
        elif name == "mu":
            rate, beta1 = config["lr_mu"], config["beta1_mu"]
        groups.setdefault((rate, beta1), []).append(weight)
    return torch.optim.AdamW(
        [{"params": g, "lr": rate, "betas": (beta1, config["beta2"])} for (rate, beta1), g in groups.items()],
        eps=config["adam_eps"],
        weight_decay=0,
        fused=True,
    )


def pytorch_worker(pipe, *arguments):
    """An error is an answer, too; without a reader it ends."""
    try:
        answer_steps(pipe, *arguments)
    except EOFError:
        pass
    except Exception as error:  # whatever PyTorch raises
        pipe.send(f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")


def answer_steps(pipe, file, attention, mode, threads):
    """Answers each number of steps with the nanoseconds of each; first with how far its loss is from the trainer's."""
    import torch
    from model import Model

    torch.set_num_threads(threads)
    derivative = Derivative(file)
    config = derivative.config
    weights = {name: w.clone().requires_grad_() for name, w in derivative.weights.items()}
    loss_of = Model(config, torch.float32, attention).loss
    if mode:
        loss_of = torch.compile(loss_of, mode=mode)
    update = optimiser(config, weights)
    batches = list(zip(derivative.tokens.split(config["rows"]), derivative.targets.split(config["rows"])))
    accumulation = len(batches) // STEPS_OF_DATA
    tokens = config["rows"] * config["sequence"] * accumulation

    def step(at):
        start = time.perf_counter_ns()
        for micro in range(accumulation):
            loss = loss_of(weights, *batches[(at * accumulation + micro) % len(batches)]) / tokens
            loss.backward()
            loss.item()
        update.step()
        update.zero_grad(set_to_none=True)
        return time.perf_counter_ns() - start

    losses = [loss_of(weights, *batch).item() for batch in batches]
    answer = abs(sum(losses) / derivative.tokens.numel() - derivative.loss)
    for at in itertools.count():
        pipe.send(answer)
        answer = [step(at + i) for i in range(pipe.recv())]


class PyTorch:
    def __init__(self, name, file, threads):
        attention, mode = ARMS[name]
        context = multiprocessing.get_context("spawn")
        self.name, self.turns = f"PyTorch {name}", []
        self.pipe, theirs = context.Pipe()
        context.Process(target=pytorch_worker, args=(theirs, file, attention, mode, threads), daemon=True).start()
        theirs.close()
        self.loss_error = self.answer()
        self.turn(4)

    def answer(self):
        answer = self.pipe.recv()
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer

    def turn(self, steps):
        self.pipe.send(steps + 1)
        return self.answer()[1:]  # the first one wakes its threads


class KernelLab:
    WARMUP = 4

    def __init__(self, trainer, folder):
        self.name, self.turns, self.trainer = "kernel-lab-train", [], trainer
        self.events, self.steps = folder / "events.jsonl", []
        self.turn(1)

    def turn(self, steps):
        self.events.unlink(missing_ok=True)
        self.trainer.must("train", "--steps", str(self.WARMUP + steps), "--skip-eval", "--events", str(self.events))
        self.start, *events = (json.loads(line) for line in self.events.read_text().splitlines())
        taken = [event for event in events if event["event"] == "step"][self.WARMUP :]
        self.steps += taken
        return [event["ns"] for event in taken]

    def split(self):
        """Milliseconds of a step by seam, over the faster half of all steps."""
        fast = sorted(self.steps, key=lambda step: step["ns"])[: max(1, len(self.steps) // 2)]
        ms = {key: statistics.mean(step["seams"][key]["ns"] for step in fast) * 1e-6 for key in fast[0]["seams"]}
        whole = statistics.mean(step["ns"] for step in fast) * 1e-6
        ms["no seam: matrix products, sums, clearing"] = whole - sum(ms.values())
        return whole, dict(sorted(ms.items(), key=lambda item: -item[1]))


def started(arguments, file):
    for name in arguments.arms:
        try:
            arm = PyTorch(name, file, arguments.threads)
        except RuntimeError as error:
            print(f"left out: PyTorch {name}: {error}", flush=True)
            continue
        if arm.loss_error > 1e-4:
            sys.exit(f"{arm.name}: its loss is {arm.loss_error:.1e} from the trainer's; run parity.py")
        yield arm


def machine():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def quartiles(values):
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


def report(arguments, ours, arms):
    import torch

    tokens, fingerprint = ours.start["tokens_per_step"], ours.start["fingerprint"]
    print(f"{machine()}, {arguments.threads} threads; {fingerprint['libraries']}; PyTorch {torch.__version__}, "
          f"{torch.backends.cpu.get_cpu_capability()}\npreset {arguments.preset} {' '.join(arguments.set)}: {tokens} tokens "
          f"a step; {arguments.rounds} turns of {arguments.steps} steps each, in turns; median of the turns' medians and quartiles")
    medians = {arm.name: [statistics.median(turn) for turn in arm.turns] for arm in arms}
    for arm in arms:
        low, middle, high = quartiles([tokens / (ns * 1e-9) for ns in medians[arm.name]])
        ratios = quartiles([theirs / own for theirs, own in zip(medians[arm.name], medians[ours.name])])
        fastest = min(ns for turn in arm.turns for ns in turn) * 1e-6
        print(f"  {arm.name:34} {middle:7.0f} tokens/s [{low:.0f}, {high:.0f}]  fastest step {fastest:6.1f} ms"
              + ("" if arm is ours else f"  ours is {ratios[1]:.2f} x [{ratios[0]:.2f}, {ratios[2]:.2f}]"))
    whole, split = ours.split()
    print(f"a step of the faster half of ours, {whole:.1f} ms, by seam")
    for key, ms in split.items():
        print(f"  {key:42} {ms:7.2f} ms {100 * ms / whole:5.1f} %")
    if arguments.output:
        record = {"machine": machine(), "threads": arguments.threads, "start": ours.start, "torch": torch.__version__,
                  "ns": {arm.name: arm.turns for arm in arms}, "split_ms": split}
        pathlib.Path(arguments.output).write_text(json.dumps(record, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_choice(parser)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=10, help="of a turn")
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=list(ARMS), metavar="ARM", help="; ".join(ARMS))
    parser.add_argument("--output", help="every turn's steps go here, as JSON")
    arguments = parser.parse_args()
    wanted = environment(arguments.threads)  # the workers', too
    os.environ.clear()
    os.environ.update(wanted)
    trainer = Trainer(arguments.trainer, arguments.preset, arguments.set, arguments.threads)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        weights, file = folder / "weights.safetensors", folder / "batches.safetensors"
        trainer.must("train", "--steps", "20", "--skip-eval", "--save", str(weights))
        ours = KernelLab(trainer, folder)
        micro_batches = f"accumulation={STEPS_OF_DATA * ours.start['config']['accumulation']}"
        trainer.must("differentiate", "--weights", str(weights), "--output", str(file), settings=[micro_batches])
        arms = [ours, *started(arguments, file)]
        for _ in range(arguments.rounds):
            for arm in arms:
                arm.turns.append(arm.turn(arguments.steps))
    report(arguments, ours, arms)


if __name__ == "__main__":
    main()
