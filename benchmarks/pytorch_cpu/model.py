"""The trainer's model in PyTorch: weights by the trainer's names, no modules.

`loss` is the sum of nats over valid targets and takes its precision from the weights.
"""

import math

import torch
import torch.nn.functional as F

GATE_COLUMNS = 32  # of the normed x, that the value gates read


class Shape:
    """What the model needs of the trainer's configuration."""

    def __init__(self, config):
        self.layers, self.width, self.head_dim = config["layers"], config["width"], config["head_dim"]
        self.sequence, self.vocab = config["sequence"], config["vocab"]
        self.heads = self.width // self.head_dim
        self.kv_heads = config["kv_heads"] or self.heads
        self.softcap, self.eps = config["softcap"], config["eps"]
        self.pattern = config["window_pattern"]

    def window(self, layer):
        """Keys before the current one that a query sees; None: all of them."""
        if layer == self.layers - 1 or self.pattern[layer % len(self.pattern)] == "L":
            return None
        return self.sequence // 2

    def has_value_embedding(self, layer):
        return layer % 2 == (self.layers - 1) % 2


def rotary_tables(shape, dtype, rounded=torch.bfloat16):
    """cos and sin [T, 1, D/2] of base 10,000."""
    d = torch.arange(shape.head_dim // 2, dtype=torch.float64)
    angle = torch.arange(shape.sequence, dtype=torch.float64)[:, None] * 10000.0 ** (-2 * d / shape.head_dim)
    return tuple(f(angle).float().to(rounded).to(dtype)[:, None, :] for f in (torch.cos, torch.sin))


def visible(shape, window):
    """[T, T]: row i sees keys i-window to i."""
    i = torch.arange(shape.sequence)[:, None]
    j = torch.arange(shape.sequence)[None, :]
    return (j <= i) & (j >= i - (shape.sequence if window is None else window))


def attention_by_products(shape, window):
    """softmax(q k^T / sqrt(D)) v with every score kept, [B, H, T, D]."""
    hidden = ~visible(shape, window)

    def attention(q, k, v):
        group = shape.heads // shape.kv_heads
        k, v = (x.repeat_interleave(group, dim=1) if group > 1 else x for x in (k, v))
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(shape.head_dim)
        return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v

    return attention


def attention_by_sdpa(shape, window):
    mask = None if window is None else visible(shape, window)

    def attention(q, k, v):
        grouped = shape.heads != shape.kv_heads
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=grouped)

    return attention


def attention_by_flex(shape, window):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    T = shape.sequence
    width = T if window is None else window
    blocks = create_block_mask(lambda b, h, i, j: (j <= i) & (j >= i - width), None, None, T, T, device="cpu")

    def attention(q, k, v):
        return flex_attention(q, k, v, block_mask=blocks, enable_gqa=shape.heads != shape.kv_heads)

    return attention


ATTENTION = {"products": attention_by_products, "sdpa": attention_by_sdpa, "flex": attention_by_flex}


class Model:
    def __init__(self, config, dtype, attention="products"):
        self.shape = s = Shape(config)
        self.cos, self.sin = rotary_tables(s, dtype)
        self.attention = [ATTENTION[attention](s, s.window(i)) for i in range(s.layers)]

    def loss(self, w, tokens, targets):
        """Sum of nats of `targets` [B, T] (-1: ignored) after `tokens` [B, T]."""
        s = self.shape
        B, T = tokens.shape

        def norm(x):
            return F.rms_norm(x, x.shape[-1:], eps=s.eps)

        def rotated(x):  # half-split, then the norm over D
            x1, x2 = x.chunk(2, dim=-1)
            return norm(torch.cat((x1 * self.cos + x2 * self.sin, x2 * self.cos - x1 * self.sin), dim=-1))

        x = x0 = norm(F.embedding(tokens, w["wte"]))
        for i in range(s.layers):
            m = f"layers.{i}."
            x = w["lambda"][i] * x + w["mu"][i] * x0
            n = norm(x)
            q = F.linear(n, w[m + "q"]).view(B, T, s.heads, s.head_dim)
            k = F.linear(n, w[m + "k"]).view(B, T, s.kv_heads, s.head_dim)
            v = F.linear(n, w[m + "v"]).view(B, T, s.kv_heads, s.head_dim)
            if s.has_value_embedding(i):
                gate = 2 * torch.sigmoid(F.linear(n[..., :GATE_COLUMNS], w[m + "gate"]))
                v = v + gate[..., None] * F.embedding(tokens, w[m + "ve"]).view_as(v)
            q, k, v = (y.transpose(1, 2) for y in (rotated(q), rotated(k), v))
            o = self.attention[i](q, k, v).transpose(1, 2).reshape(B, T, s.width)
            x = x + F.linear(o, w[m + "o"])
            h = F.linear(norm(x), w[m + "fc"])
            x = x + F.linear(F.relu(h).square(), w[m + "proj"])
        z = F.linear(norm(x), w["lm_head"]).view(B * T, s.vocab)
        return F.cross_entropy(s.softcap * torch.tanh(z / s.softcap), targets.view(-1), ignore_index=-1, reduction="sum")
