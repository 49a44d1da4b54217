#!/usr/bin/env python3
"""The trainer's loss and gradients against the same model in PyTorch, in float64, from the same weights.

For the preset as it is, for each other choice of each region, and for choices taken together. Exit code 1
when a figure is beyond its bound or the trainer refuses a variant. See README.md beside this file.
"""

import argparse
import json
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True  # leave nothing beside the sources

import model
import torch
from trainer import Derivative, Trainer, add_choice

# Of the loss, relative; of a gradient's error, over the root mean square of the gradient.
LOSS_BOUND, RMS_BOUND, MAX_BOUND = 1e-6, 5e-6, 1e-3


def one_key_fewer(shape, layer, window=model.Shape.window):
    keys = window(shape, layer)
    return None if keys is None else keys - 1


def exact_tables(shape, dtype, tables=model.rotary_tables):
    return tables(shape, dtype, rounded=torch.float32)


# What PyTorch's side does wrong for --break: each must be seen.
MISTAKES = {
    "window": lambda config: setattr(model.Shape, "window", one_key_fewer),
    "tables": lambda config: setattr(model, "rotary_tables", exact_tables),
    "eps": lambda config: config.update(eps=1e-5),
    "softcap": lambda config: config.update(softcap=15.01),
}


def differentiate(derivative, dtype):
    """Loss per token and gradients, by name, of the file's tokens and weights."""
    loss_of = model.Model(derivative.config, dtype).loss
    weights = {name: w.to(dtype).requires_grad_() for name, w in derivative.weights.items()}
    loss, rows = 0.0, derivative.config["rows"]
    for at in range(0, len(derivative.tokens), rows):  # micro-batches
        part = loss_of(weights, derivative.tokens[at : at + rows], derivative.targets[at : at + rows])
        (part / derivative.tokens.numel()).backward()
        loss += part.item() / derivative.tokens.numel()
    return loss, {name: w.grad for name, w in weights.items()}


def error(gradient, exact):
    """Root mean square and largest, over the root mean square of the exact one."""
    size = exact.square().mean().sqrt().item()
    if size == 0:
        return (float("inf"),) * 2  # a gradient that is not exercised shows nothing
    difference = gradient.double() - exact
    return difference.square().mean().sqrt().item() / size, difference.abs().max().item() / size


def variants(trainer):
    """Settings: none, each choice alone, then sets of choices that the trainer takes together."""
    choices = []
    for region in json.loads(trainer.must("regions"))["regions"]:
        choices += [f"{region['region']}={choice}" for choice in region["choices"] if choice != region["value"]]
    together = []
    for choice in choices:
        for group in together:
            regions = {setting.split("=")[0] for setting in group}
            if choice.split("=")[0] not in regions and trainer.call("regions", settings=[*group, choice]).returncode == 0:
                group.append(choice)
                break
        else:
            together.append([choice])
    return [[], *([choice] for choice in choices), *(group for group in together if len(group) > 1)]


class Report:
    def __init__(self):
        self.failed = 0

    def verdict(self, inside):
        self.failed += not inside
        return "" if inside else "  BEYOND ITS BOUND"

    def row(self, name, rms, largest, more=""):
        inside = rms <= RMS_BOUND and largest <= MAX_BOUND
        print(f"  {name:16} {rms:9.1e} {largest:9.1e}{more}{self.verdict(inside)}")

    def variant(self, settings, derivative, exact, every_tensor):
        loss, gradients = exact
        print(f"{' '.join(settings) or 'as the preset says'}")
        off = abs(derivative.loss - loss) / loss
        print(f"  loss {derivative.loss:.9f}, PyTorch {loss:.9f}: {off:.1e}{self.verdict(off <= LOSS_BOUND)}")
        if set(gradients) != set(derivative.gradients):
            sys.exit("the two have not the same tensors")
        errors = {name: error(derivative.gradients[name], gradients[name]) for name in gradients}
        worst = [max(errors, key=lambda name: errors[name][k]) for k in (0, 1)]
        shown = list(gradients) if every_tensor else sorted(set(worst))
        beyond = [n for n, (rms, largest) in errors.items() if not (rms <= RMS_BOUND and largest <= MAX_BOUND)]
        for name in dict.fromkeys([*shown, *beyond]):
            self.row(name, *errors[name])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_choice(parser)
    parser.add_argument("--steps", type=int, default=20, help="trained before, so that no weight is zero")
    parser.add_argument("--break", dest="mistake", choices=MISTAKES, help="a mistake on PyTorch's side, to see what it costs")
    parser.add_argument("--all", action="store_true", help="every tensor of every variant, not the worst")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    trainer = Trainer(arguments.trainer, arguments.preset, arguments.set, arguments.threads)
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        weights, output = (pathlib.Path(folder) / f"{name}.safetensors" for name in ("weights", "derivative"))
        trainer.must("train", "--steps", str(arguments.steps), "--skip-eval", "--save", str(weights))
        print(f"preset {arguments.preset} {' '.join(arguments.set)}: weights after {arguments.steps} steps; PyTorch "
              f"{torch.__version__} in float64.\nError of a gradient over the gradient's root mean square: "
              f"root mean square (at most {RMS_BOUND:.0e}), largest (at most {MAX_BOUND:.0e})")
        exact = None
        for settings in [[]] if arguments.mistake else variants(trainer):
            done = trainer.call("differentiate", "--weights", str(weights), "--output", str(output), settings=settings)
            if done.returncode != 0:
                report.failed += 1
                print(f"{' '.join(settings)}\n  REFUSED: {done.stderr.strip()}")
                continue
            derivative = Derivative(output)
            if exact is None:
                if arguments.mistake:
                    MISTAKES[arguments.mistake](derivative.config)
                exact = differentiate(derivative, torch.float64)
            report.variant(settings, derivative, exact, arguments.all or not settings)
    print(f"{report.failed} beyond their bounds or refused" if report.failed else "all within their bounds")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
