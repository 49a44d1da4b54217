"""Odd shapes, tails, hostile values and a graph replay, against double arithmetic."""

import math

import torch

import exact
from kernel_library import BACKWARD, FORWARD

DTYPES = (torch.float32, torch.bfloat16)
EPS = 1.1920929e-07
RMSNORM_SHAPES = [(1, 1), (3, 3), (5, 127), (7, 15), (8, 17), (33, 256), (17, 1000), (64, 513)]
RMSNORM_SHAPES += [(31, 4096), (1025, 129), (512, 512), (4099, 512), (3, 2048), (2, 10007)]
LOSS_SHAPES = [(1, 1), (1, 3), (2, 2), (3, 16), (4, 65), (5, 127), (7, 31), (8, 256), (17, 1000)]
LOSS_SHAPES += [(65, 4097), (257, 513), (128, 8192), (3001, 264), (9, 50304)]


def poison(*tensors):
    for tensor in tensors:
        if tensor is not None:
            tensor.view(torch.uint8).fill_(0xFF)


def run_poisoned(operation, outputs, keep_saved):
    poison(operation.scratch, *outputs)
    if not keep_saved:
        poison(operation.saved)
    operation.run()
    torch.cuda.synchronize()


def replayed(operation):
    """Runs the call once more, from a CUDA graph."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin()
        operation.run()
        graph.capture_end()
    torch.cuda.synchronize()
    poison(operation.scratch)
    graph.replay()
    torch.cuda.synchronize()


def same_bits(a, b):
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def shifted_by_one(tensor):
    """The same values at an address that is not 16-byte aligned."""
    room = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)
    room[1:] = tensor.flatten()
    return room[1:].view(tensor.shape)


def hostile(x, kind):
    if kind == "large":
        return x * 1e30
    if kind == "small":
        return x * 1e-30
    if kind == "non-finite":
        x = x.clone()
        x[0, 0], x[1, -1], x[2, x.shape[1] // 2] = math.inf, -math.inf, math.nan
    return x


def rmsnorm_case(library, shape, dtype, weighted, kind="normal", aligned=True):
    rows, columns = shape
    x = hostile(torch.randn(shape, device="cuda"), kind).to(dtype)
    dy = torch.randn(shape, device="cuda").to(dtype)
    if not aligned:
        x, dy = shifted_by_one(x), shifted_by_one(dy)
    w = torch.randn(columns, device="cuda") if weighted else None
    y, dx = torch.empty_like(x), torch.empty_like(x)
    before = torch.randn(columns, device="cuda")
    dw = before.clone() if weighted else None
    forward = library.operation(FORWARD, [x, w], [y], [EPS])
    run_poisoned(forward, [y], keep_saved=False)
    want, terms = exact.rmsnorm_forward(x, w, EPS)
    worst = exact.worst_fraction(y, want, terms, columns)
    backward = library.operation(BACKWARD, [dy, x, w], [dx, dw], [EPS], forward)
    run_poisoned(backward, [dx], keep_saved=True)
    want, terms, want_dw, dw_terms = exact.rmsnorm_backward(dy, x, w, EPS, before)
    worst = max(worst, exact.worst_fraction(dx, want, terms, columns))
    if weighted:
        worst = max(worst, exact.worst_fraction(dw, want_dw, dw_terms, rows))
    first = [t.clone() for t in (y, dx, dw) if t is not None]
    if weighted:
        dw.copy_(before)
    poison(y, dx)
    replayed(forward)
    replayed(backward)
    again = [t for t in (y, dx, dw) if t is not None]
    return worst, all(same_bits(a, b) for a, b in zip(first, again))


def loss_case(library, shape, dtype, softcap=15.0, scale=2.0, kind="normal", aligned=True, g=0.75):
    rows, vocabulary = shape
    logits = hostile(torch.randn(shape, device="cuda") * scale, kind).to(dtype)
    if not aligned:
        logits = shifted_by_one(logits)
    targets = torch.randint(0, vocabulary, (rows,), dtype=torch.int32, device="cuda")
    targets[1::5] = -1
    if kind == "bad target":
        targets[2], targets[3] = vocabulary, -2
    token_bytes = torch.randint(0, 17, (vocabulary,), dtype=torch.int32, device="cuda")
    nll = torch.empty(rows, device="cuda")
    nll_sum, byte_sum = (torch.empty(1, dtype=torch.float64, device="cuda") for _ in range(2))
    outputs = [nll, nll_sum, byte_sum]
    forward = library.operation(FORWARD, [logits, targets, token_bytes], outputs, [softcap])
    run_poisoned(forward, outputs, keep_saved=False)
    want = exact.Loss(logits, targets, softcap)
    worst = exact.worst_fraction(nll, want.nll, want.nll_terms, vocabulary)
    sum_terms = want.nll_terms[want.valid].sum().reshape(1)
    sum_worst = exact.worst_fraction(nll_sum, want.nll.sum().reshape(1), sum_terms, rows)
    want_bytes = token_bytes.double()[targets.long()[want.valid]].sum()
    if float(byte_sum) != float(want_bytes):
        sum_worst = math.inf
    dlogits = torch.empty_like(logits)
    gain = torch.full((1,), g, device="cuda")
    backward = library.operation(BACKWARD, [gain, logits, targets], [dlogits], [softcap], forward)
    run_poisoned(backward, [dlogits], keep_saved=True)
    gradient, terms = want.gradient(g)
    worst = max(worst, sum_worst, exact.worst_fraction(dlogits, gradient, terms, vocabulary))
    first = [t.clone() for t in (*outputs, dlogits)]
    poison(*outputs, dlogits, forward.saved)
    replayed(forward)
    replayed(backward)
    return worst, all(same_bits(a, b) for a, b in zip(first, (*outputs, dlogits)))


def cases(target):
    """(name, function of a library)."""
    for dtype in DTYPES:
        kind = str(dtype).removeprefix("torch.")
        if target == "rmsnorm":
            for weighted in (False, True):
                named = f"{kind}{' w' if weighted else ''}"
                for shape in RMSNORM_SHAPES:
                    yield f"{named} {shape}", lambda l, s=shape, d=dtype, w=weighted: rmsnorm_case(
                        l, s, d, w
                    )
                for values in ("large", "small", "non-finite"):
                    for shape in ((33, 256), (6, 131)):
                        yield f"{named} {shape} {values}", (
                            lambda l, s=shape, d=dtype, w=weighted, v=values: rmsnorm_case(
                                l, s, d, w, v
                            )
                        )
                yield f"{named} unaligned", lambda l, d=dtype, w=weighted: rmsnorm_case(
                    l, (65, 512), d, w, aligned=False
                )
        else:
            for shape in LOSS_SHAPES:
                yield f"{kind} {shape}", lambda l, s=shape, d=dtype: loss_case(l, s, d)
            for values in ("large", "small", "non-finite", "bad target"):
                for shape in ((8, 256), (6, 131)):
                    yield f"{kind} {shape} {values}", (
                        lambda l, s=shape, d=dtype, v=values: loss_case(l, s, d, kind=v)
                    )
            for softcap, scale in ((50.0, 20.0), (200.0, 90.0), (5.0, 8.0), (15.0, 0.01)):
                yield f"{kind} (65, 1024) softcap {softcap} scale {scale}", (
                    lambda l, d=dtype, s=softcap, k=scale: loss_case(l, (65, 1024), d, s, k)
                )
            yield f"{kind} unaligned", lambda l, d=dtype: loss_case(l, (65, 512), d, aligned=False)


def check_library(target, library):
    """One record a case: its name, the largest error over its bound, and what is wrong, if it is."""
    records = []
    for name, case in cases(target):
        torch.manual_seed(len(records) + 1)
        try:
            worst, repeats = case(library)
            wrong = None if worst <= 1 else f"error is {worst:.3g} of its bound"
            if wrong is None and not repeats:
                wrong = "a graph replay gave other bits"
        except Exception as error:  # the other cases go on
            worst, wrong = math.nan, f"{type(error).__name__}: {error}"
        records.append({"target": target, "case": name, "worst_of_bound": worst, "wrong": wrong})
    return records
