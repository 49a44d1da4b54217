"""The targets in double, each value with the sum of |terms| behind it, as their oracles state them.

An element passes if |got - y| <= u*|y| + 6*sqrt(n)*2^-24*terms, u the unit round-off of its type,
neither |y| nor terms taken below the smallest normal number: subnormals lie no closer than there.
"""

import math

import torch

UNIT_ROUNDOFF = {torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24, torch.float64: 2.0**-53}
SMALLEST_NORMAL = 2.0**-126


def worst_fraction(got, exact, terms, n):
    """Largest error over its bound; infinite where a NaN or infinity is not the expected one."""
    value = got.double()
    finite = torch.isfinite(exact)
    same = (value == exact) | (torch.isnan(value) & torch.isnan(exact))
    if not bool(same[~finite].all()) or not bool(torch.isfinite(value[finite]).all()):
        return math.inf
    factor = 6 * math.sqrt(n) * 2.0**-24
    bound = UNIT_ROUNDOFF[got.dtype] * exact.abs().clamp(min=SMALLEST_NORMAL)
    bound += factor * terms.clamp(min=SMALLEST_NORMAL)
    fraction = (value - exact).abs()[finite] / bound[finite]
    return float(fraction.max()) if fraction.numel() else 0.0


def rmsnorm_forward(x, w, eps):
    x = x.double()
    r = torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)
    weight = w.double() if w is not None else 1.0
    y = x * r * weight
    return y, 1.5 * y.abs()


def rmsnorm_backward(dy, x, w, eps, dw_before):
    dy, x = dy.double(), x.double()
    r = torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)
    g = dy * w.double() if w is not None else dy
    mean = (g * x * r).mean(-1, keepdim=True)
    mean_terms = 1.5 * (g * x * r).abs().mean(-1, keepdim=True)
    dx = r * (g - x * r * mean)
    dx_terms = 1.5 * r * (g.abs() + 1.5 * (x * r).abs() * mean_terms)
    if w is None:
        return dx, dx_terms, None, None
    dw = dw_before.double() + (dy * x * r).sum(0)
    return dx, dx_terms, dw, dw_before.double().abs() + 1.5 * (dy * x * r).abs().sum(0)


class Loss:
    """Rows of softcapped logits with targets; everything the two operations of loss_prelude give."""

    def __init__(self, logits, targets, softcap):
        z = logits.double()
        self.vocabulary = z.shape[1]
        self.targets = targets.long()
        self.valid = (self.targets >= 0) & (self.targets < self.vocabulary)
        place = self.targets.clamp(0, self.vocabulary - 1).unsqueeze(1)
        u = z / softcap
        self.t = torch.tanh(u)
        slack = torch.nan_to_num((1 - self.t**2) * 2 * u.abs(), nan=0.0)
        self.t_terms = self.t.abs() + slack
        capped = softcap * self.t
        best = capped.max(1, keepdim=True)
        shifted = capped - best.values
        e = torch.exp(shifted)
        e_terms = e * (1 + softcap * self.t_terms + shifted.abs())
        total, total_terms = e.sum(1, keepdim=True), e_terms.sum(1, keepdim=True)
        self.p = e / total
        self.p_terms = e_terms / total + self.p * total_terms / total
        self.one = torch.zeros_like(z).scatter_(1, place, 1.0)
        terms = softcap * self.t_terms
        nll = best.values + torch.log(total) - capped.gather(1, place)
        nll_terms = terms.gather(1, best.indices) + torch.log(total).abs() + total_terms / total
        nll_terms += terms.gather(1, place)
        self.nll = self.with_others(nll).squeeze(1)
        self.nll_terms = nll_terms.squeeze(1)

    def with_others(self, rows):
        """0 where the target is ignored, NaN where it is neither a token nor ignored."""
        other = torch.where(self.targets == -1, 0.0, math.nan).double().unsqueeze(1)
        return torch.where(self.valid.unsqueeze(1), rows, other)

    def gradient(self, g):
        slope = 1 - self.t**2
        value = g * (self.p - self.one) * slope
        terms = abs(g) * (self.p_terms + self.one) * (1 + self.t_terms**2)
        return self.with_others(value), terms
