"""Networks of torch as people convert them: small, with fixed seeds, each with the shapes of one or
more calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Residual(nn.Module):
    """Two convolutions and what goes round them."""

    def __init__(self, channels: int, wider: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, wider, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(wider, wider, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(wider) for _ in range(3)])
        self.around = nn.Conv2d(channels, wider, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(inner)) + self.norms[2](self.around(x)))


class ResNet(nn.Sequential):
    def __init__(self) -> None:
        stem = [
            nn.Conv2d(3, 16, 7, 2, 3, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        ]
        super().__init__(
            *stem,
            Residual(16, 16, 1),
            Residual(16, 32, 2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 10),
        )


class MobileBlock(nn.Module):
    """Depthwise convolution, squeeze and excitation, hard swish."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 3, 2, 1)
        self.depthwise = nn.Conv2d(24, 24, 5, 1, 4, dilation=2, groups=24)
        self.grouped = nn.Conv2d(24, 48, 3, 1, 1, groups=4)
        self.squeeze, self.excite = nn.Conv2d(48, 12, 1), nn.Conv2d(12, 48, 1)
        self.norm = nn.GroupNorm(6, 48)

    def forward(self, x: Tensor) -> Tensor:
        x = F.hardswish(self.depthwise(F.hardswish(self.stem(x))))
        x = F.silu(self.norm(self.grouped(x)))
        gate = F.hardsigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(x, 1)))))
        return F.avg_pool2d(F.channel_shuffle(x * gate, 4), 3, 2, 1)


class Segmentation(nn.Module):
    """A U-Net of two levels: up by a transposed convolution, by bilinear and by bicubic
    interpolation.
    """

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            [nn.Conv2d(a, b, 3, 2, 1) for a, b in ((3, 8), (8, 16), (16, 32))]
        )
        self.up = nn.ConvTranspose2d(32, 16, 4, 2, 1)
        self.merge = nn.ModuleList([nn.Conv2d(a, b, 3, 1, 1) for a, b in ((32, 8), (16, 8))])
        self.norm = nn.InstanceNorm2d(8, affine=True)
        self.head = nn.ConvTranspose2d(8, 4, 3, 2, 1, output_padding=1, groups=2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = F.leaky_relu(self.down[0](x), 0.1)
        b = F.elu(self.down[1](a))
        c = F.softplus(self.down[2](b))
        d = F.mish(self.merge[0](torch.cat([self.up(c), b], 1)))
        d = F.interpolate(d, scale_factor=2, mode="bilinear", align_corners=False)
        e = self.norm(self.merge[1](torch.cat([d, a], 1)))
        logits = F.interpolate(self.head(e), size=(40, 24), mode="bicubic", align_corners=False)
        return logits.softmax(1), logits.argmax(1)


class Encoder(nn.Module):
    """A transformer encoder over token ids, with a padding mask."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(50, 32), nn.Embedding(64, 32)
        layer = nn.TransformerEncoderLayer(
            32, 4, 64, batch_first=True, activation="gelu", norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        padding = ids == 0
        kept = (~padding).unsqueeze(-1).float()
        return (self.layers(x, src_key_padding_mask=padding) * kept).sum(1) / kept.sum(1)


class Attention(nn.Module):
    """Grouped-query attention with rotary positions, causal, through ScaledDotProductAttention;
    RMSNorm and SwiGLU.
    """

    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv, self.out = (
            nn.Linear(32, 32, False),
            nn.Linear(32, 16, False),
            nn.Linear(32, 32, False),
        )
        self.gate, self.up, self.down = nn.Linear(32, 48), nn.Linear(32, 48), nn.Linear(48, 32)
        self.norm = nn.RMSNorm(32)

    def turned(self, x: Tensor, start: int) -> Tensor:
        angles = torch.outer(
            torch.arange(start, start + x.shape[2]).float(), 0.1 ** torch.arange(4).float()
        )
        cosine, sine = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
        half = torch.cat([-x[..., 4:], x[..., :4]], -1)
        return x * cosine + half * sine

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, length, _ = x.shape
        q = self.q(x).view(batch, length, 4, 8).transpose(1, 2)
        k, v = self.kv(x).view(batch, length, 2, 8).transpose(1, 2).chunk(2, 1)
        return q, k, v

    def finished(self, x: Tensor, mixed: Tensor) -> Tensor:
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.silu(self.gate(x)) * self.up(x))

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = self.heads(self.norm(x))
        q, k = self.turned(q, 0), self.turned(k, 0)
        k, v = k.expand(-1, 4, -1, -1), v.expand(-1, 4, -1, -1)
        causal = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        masked = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.5)
        return self.finished(x, causal), self.finished(x, masked)


class DecoderStep(Attention):
    """One step of a decoder: keys and values of the steps before come in and go out."""

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        q, k, v = self.heads(self.norm(x))
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        mixed = F.scaled_dot_product_attention(
            q, keys.expand(-1, 4, -1, -1), values.expand(-1, 4, -1, -1)
        )
        return self.finished(x, mixed), keys, values


class LstmLoop(nn.Module):
    """An LSTM in a loop over the steps, which scripting keeps as a loop, with a condition
    inside.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.out = nn.Linear(14, 32), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.shape[1], 8)
        c = torch.zeros(x.shape[1], 8)
        total = torch.zeros(x.shape[1], 3)
        for step in range(x.shape[0]):
            i, f, g, o = self.gates(torch.cat([x[step], h], 1)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            if step % 2 == 1:
                total = total + self.out(h)
        return torch.cat([h, total], 1)


class Recurrent(nn.Module):
    """A bidirectional GRU, an LSTM with a projection's worth of layers, a plain RNN."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 8, 2, batch_first=True, bidirectional=True)
        self.lstm = nn.LSTM(16, 10, batch_first=True)
        self.rnn = nn.RNN(10, 5, batch_first=True, nonlinearity="tanh")

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        y, last = self.gru(x)
        y, (_, cell) = self.lstm(y)
        return self.rnn(y)[0], last, cell, y.flip(1).cumsum(1)


class Bags(nn.Module):
    """Embedding bags with offsets, by sum with weights and by mean, beside dense features."""

    def __init__(self) -> None:
        super().__init__()
        self.summed, self.mean = (
            nn.EmbeddingBag(40, 8, mode="sum"),
            nn.EmbeddingBag(40, 8, mode="mean"),
        )
        self.deep = nn.Sequential(nn.Linear(21, 16), nn.PReLU(), nn.LayerNorm(16), nn.Linear(16, 1))

    def forward(self, ids: Tensor, offsets: Tensor, weights: Tensor, dense: Tensor) -> Tensor:
        both = [self.summed(ids, offsets, weights), self.mean(ids, offsets), dense]
        return torch.sigmoid(self.deep(torch.cat(both, 1)))


class WindowedVision(nn.Module):
    """Patches, windows that are rolled, a top-k routing and an einsum: what vision transformers
    write.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, 16, 4, 4), nn.LayerNorm(16)
        self.qkv, self.route = nn.Linear(16, 48), nn.Linear(16, 4)
        self.experts = nn.Parameter(torch.randn(4, 16, 16) / 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.patches(x).permute(0, 2, 3, 1)
        rolled = torch.roll(x, (-1, -1), (1, 2))
        windows = (
            rolled.unfold(1, 2, 2).unfold(2, 2, 2).permute(0, 1, 2, 4, 5, 3).reshape(-1, 4, 16)
        )
        q, k, v = self.qkv(self.norm(windows)).chunk(3, -1)
        windows = windows + torch.einsum(
            "bqk,bkd->bqd", (torch.einsum("bqd,bkd->bqk", q, k) / 4).softmax(-1), v
        )
        weight, chosen = self.route(windows).softmax(-1).topk(2, -1)
        each = torch.einsum("btd,edf->btef", windows, self.experts)
        picked = each.gather(2, chosen.unsqueeze(-1).expand(-1, -1, -1, 16))
        return (picked * weight.unsqueeze(-1)).sum(2), chosen


class Audio(nn.Module):
    """Dilated gated convolutions over a spectrum."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.gates = nn.ModuleList(
            [nn.Conv1d(17, 34, 3, padding=2**i, dilation=2**i) for i in range(3)]
        )
        self.pool, self.out = nn.MaxPool1d(2, 2, ceil_mode=True), nn.Conv1d(17, 4, 1)

    def forward(self, signal: Tensor) -> Tensor:
        spectrum = (
            torch.stft(signal, 32, 8, 32, self.window, center=True, return_complex=True)
            .abs()
            .clamp_min(1e-5)
            .log()
        )
        x = spectrum
        for gate in self.gates:
            x = x + F.glu(gate(x), 1)
        return F.log_softmax(self.out(self.pool(F.pad(x, (1, 1), mode="reflect"))), 1)


def seeded(maker: Callable[[], nn.Module], seed: int = 7) -> nn.Module:
    """The network with weights and statistics of its own, ready to be used."""
    torch.manual_seed(seed)
    module = maker().eval()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.2)
            part.running_var.uniform_(0.5, 1.5)
    return module


def scripted(maker: Callable[[], nn.Module]) -> Any:
    """The same with its control flow kept."""
    return torch.jit.script(seeded(maker))
