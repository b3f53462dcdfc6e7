"""A transformer's encoder with a head, as the common libraries build them; norms in front or behind."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """Attention of tokens to each other: one layer for queries, keys and values, one behind."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[N, T, C] to the same shape."""
        count, length, width = x.shape
        parts = self.qkv(x).reshape(count, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        return self.out(mixed.transpose(1, 2).reshape(count, length, width))


class Block(nn.Module):
    """Attention and two layers with GELU between them, each beside a path around it.

    `first`: the norms are in front of them, as a ViT has it; else behind the sums, as BERT has it.
    """

    def __init__(self, width: int, heads: int, first: bool) -> None:
        super().__init__()
        self.first = first
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.parts = nn.ModuleList([Attention(width, heads), wide])

    def forward(self, x: Tensor) -> Tensor:
        """[N, T, C] to the same shape."""
        for norm, part in zip(self.norms, self.parts, strict=True):
            x = x + part(norm(x)) if self.first else norm(x + part(x))
        return x


class Encoder(nn.Module):
    """Tokens of `embed` [N, T, C] with learnt places, blocks, the mean of the tokens, a head."""

    def __init__(
        self, embed: nn.Module, length: int, classes: int, *, width: int, depth: int, heads: int, first: bool
    ) -> None:
        super().__init__()
        self.embed = embed
        self.places = nn.Parameter(0.02 * torch.randn(1, length, width))
        self.blocks = nn.Sequential(*(Block(width, heads, first) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """What `embed` takes to the logits [N, classes]."""
        return self.head(self.norm(self.blocks(self.embed(x) + self.places)).mean(1))


class Patches(nn.Module):
    """Square parts of an image [N, 3, H, W] as tokens, by a convolution."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, size, stride=size)

    def forward(self, image: Tensor) -> Tensor:
        """[N, 3, H, W] to [N, T, C]."""
        return self.conv(image).flatten(2).transpose(1, 2)
