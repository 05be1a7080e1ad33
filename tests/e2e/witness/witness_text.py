"""The transformers as plain torch.nn modules: nanoGPT's and Hugging Face's keys, output matrices untied unless a spec
ties them.
"""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from witness_dropout import Context, Dropout


@dataclasses.dataclass
class Sizes:
    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int


def split_heads(x: Tensor, heads: int) -> Tensor:
    batch, context, width = x.shape
    return x.view(batch, context, heads, width // heads).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    batch, heads, context, width = x.shape
    return x.transpose(1, 2).contiguous().view(batch, context, heads * width)


class CausalSelfAttention(nn.Module):
    def __init__(self, sizes: Sizes, dropout: Dropout) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.c_attn = nn.Linear(sizes.width, 3 * sizes.width)
        self.c_proj = nn.Linear(sizes.width, sizes.width)
        self.resid_dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split_heads(part, self.heads) for part in self.c_attn(x).split(x.shape[2], dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.resid_dropout(self.c_proj(join_heads(y)))


class GptMlp(nn.Module):
    def __init__(self, width: int, dropout: Dropout) -> None:
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * width, width)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.c_proj(self.gelu(self.c_fc(x))))


class GptBlock(nn.Module):
    def __init__(self, name: str, sizes: Sizes, p: float, context: Context) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(sizes.width)
        self.attn = CausalSelfAttention(sizes, Dropout(p, f"{name}.attn.resid_dropout", context))
        self.ln_2 = nn.LayerNorm(sizes.width)
        self.mlp = GptMlp(sizes.width, Dropout(p, f"{name}.mlp.dropout", context))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GptBody(nn.Module):
    def __init__(self, sizes: Sizes, p: float, context: Context) -> None:
        super().__init__()
        self.wte = nn.Embedding(sizes.vocabulary, sizes.width)
        self.wpe = nn.Embedding(sizes.context, sizes.width)
        self.drop = Dropout(p, "transformer.drop", context)
        self.h = nn.ModuleList(GptBlock(f"transformer.h.{i}", sizes, p, context) for i in range(sizes.layers))
        self.ln_f = nn.LayerNorm(sizes.width)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.drop(self.wte(ids) + self.wpe(torch.arange(ids.shape[1])))
        for block in self.h:
            x = block(x)
        return self.ln_f(x)


class Gpt(nn.Module):
    """nanoGPT, but lm_head is not tied to wte and attention weights have no dropout."""

    def __init__(self, sizes: Sizes, p: float, context: Context) -> None:
        super().__init__()
        self.transformer = GptBody(sizes, p, context)
        self.lm_head = nn.Linear(sizes.width, sizes.vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        return self.lm_head(self.transformer(ids))


class BertEmbeddings(nn.Module):
    def __init__(self, sizes: Sizes, dropout: Dropout) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(sizes.vocabulary, sizes.width)
        self.position_embeddings = nn.Embedding(sizes.context, sizes.width)
        self.token_type_embeddings = nn.Embedding(2, sizes.width)
        self.LayerNorm = nn.LayerNorm(sizes.width, eps=1e-12)
        self.dropout = dropout

    def forward(self, ids: Tensor) -> Tensor:
        x = self.word_embeddings(ids) + self.token_type_embeddings(torch.zeros_like(ids))
        x = x + self.position_embeddings(torch.arange(ids.shape[1]))
        return self.dropout(self.LayerNorm(x))


class BertSelfAttention(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.query = nn.Linear(sizes.width, sizes.width)
        self.key = nn.Linear(sizes.width, sizes.width)
        self.value = nn.Linear(sizes.width, sizes.width)

    def forward(self, x: Tensor) -> Tensor:
        q = split_heads(self.query(x), self.heads)
        k = split_heads(self.key(x), self.heads)
        v = split_heads(self.value(x), self.heads)
        return join_heads(F.scaled_dot_product_attention(q, k, v))


class BertSum(nn.Module):
    """LayerNorm(dropout(dense(y)) + x)."""

    def __init__(self, inputs: int, width: int, dropout: Dropout) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = dropout

    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        return self.LayerNorm(self.dropout(self.dense(y)) + x)


class BertBlock(nn.Module):
    def __init__(self, name: str, sizes: Sizes, p: float, context: Context) -> None:
        super().__init__()
        width = sizes.width
        inner = BertSum(width, width, Dropout(p, f"{name}.attention.output.dropout", context))
        self.attention = nn.ModuleDict({"self": BertSelfAttention(sizes), "output": inner})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, 4 * width)})
        self.output = BertSum(4 * width, width, Dropout(p, f"{name}.output.dropout", context))

    def forward(self, x: Tensor) -> Tensor:
        x = self.attention["output"](self.attention["self"](x), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class BertPredictions(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.transform = nn.ModuleDict(
            {"dense": nn.Linear(sizes.width, sizes.width), "LayerNorm": nn.LayerNorm(sizes.width, eps=1e-12)}
        )
        self.decoder = nn.Linear(sizes.width, sizes.vocabulary)

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.transform["LayerNorm"](F.gelu(self.transform["dense"](x))))


class Bert(nn.Module):
    """BertForMaskedLM, but its decoder is not tied to word_embeddings, attention weights have no dropout, and no token
    is padding.
    """

    def __init__(self, sizes: Sizes, p: float, context: Context) -> None:
        super().__init__()
        blocks = nn.ModuleList(BertBlock(f"bert.encoder.layer.{i}", sizes, p, context) for i in range(sizes.layers))
        embeddings = BertEmbeddings(sizes, Dropout(p, "bert.embeddings.dropout", context))
        self.bert = nn.ModuleDict({"embeddings": embeddings, "encoder": nn.ModuleDict({"layer": blocks})})
        self.cls = nn.ModuleDict({"predictions": BertPredictions(sizes)})

    def forward(self, ids: Tensor) -> Tensor:
        x = self.bert["embeddings"](ids)
        for block in self.bert.get_submodule("encoder.layer").children():
            x = block(x)
        return self.cls["predictions"](x)


Rotation = tuple[Tensor, Tensor]


def rotated(x: Tensor, rotation: Rotation) -> Tensor:
    """Rotary positions: number j of a head turns with number j + half. x: [batch, heads, context, size]; its cosine
    and sine: [context, size].
    """
    cos, sin = rotation
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * sin


def repeated(x: Tensor, times: int) -> Tensor:
    """x: [batch, heads, context, size], each head `times` times in a row."""
    batch, heads, context, size = x.shape
    return x[:, :, None].expand(batch, heads, times, context, size).reshape(batch, heads * times, context, size)


@dataclasses.dataclass
class LlamaSizes(Sizes):
    kv_heads: int
    feed_forward: int
    tied: bool


class LlamaAttention(nn.Module):
    def __init__(self, sizes: LlamaSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.size = sizes.width // sizes.heads
        shared = sizes.kv_heads * self.size
        self.q_proj = nn.Linear(sizes.width, sizes.width, bias=False)
        self.k_proj = nn.Linear(sizes.width, shared, bias=False)
        self.v_proj = nn.Linear(sizes.width, shared, bias=False)
        self.o_proj = nn.Linear(sizes.width, sizes.width, bias=False)

    def forward(self, x: Tensor, rotation: Rotation) -> Tensor:
        q = split_heads(self.q_proj(x), self.sizes.heads)
        k = split_heads(self.k_proj(x), self.sizes.kv_heads)
        v = split_heads(self.v_proj(x), self.sizes.kv_heads)
        q, k = rotated(q, rotation), rotated(k, rotation)
        if (sharing := self.sizes.heads // self.sizes.kv_heads) > 1:
            k, v = repeated(k, sharing), repeated(v, sharing)
        return self.o_proj(join_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


class LlamaMlp(nn.Module):
    def __init__(self, sizes: LlamaSizes) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(sizes.width, sizes.feed_forward, bias=False)
        self.up_proj = nn.Linear(sizes.width, sizes.feed_forward, bias=False)
        self.down_proj = nn.Linear(sizes.feed_forward, sizes.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaBlock(nn.Module):
    def __init__(self, sizes: LlamaSizes) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(sizes.width, eps=1e-5)
        self.self_attn = LlamaAttention(sizes)
        self.post_attention_layernorm = nn.RMSNorm(sizes.width, eps=1e-5)
        self.mlp = LlamaMlp(sizes)

    def forward(self, x: Tensor, rotation: Rotation) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), rotation)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """LlamaForCausalLM. Tied, it has no lm_head: the token embedding is the only matrix, under its own key."""

    def __init__(self, sizes: LlamaSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.model = nn.ModuleDict(
            {
                "embed_tokens": nn.Embedding(sizes.vocabulary, sizes.width),
                "layers": nn.ModuleList(LlamaBlock(sizes) for _ in range(sizes.layers)),
                "norm": nn.RMSNorm(sizes.width, eps=1e-5),
            }
        )
        if not sizes.tied:
            self.lm_head = nn.Linear(sizes.width, sizes.vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        size = self.sizes.width // self.sizes.heads
        frequencies = 1.0 / (10000.0 ** (torch.arange(0, size, 2).float() / size))
        angles = torch.arange(ids.shape[1]).float()[:, None] * frequencies
        both = torch.cat([angles, angles], dim=-1)
        x = self.model["embed_tokens"](ids)
        rotation = both.cos().to(x.dtype), both.sin().to(x.dtype)
        for block in self.model.get_submodule("layers").children():
            x = block(x, rotation)
        x = self.model["norm"](x)
        return F.linear(x, self.model["embed_tokens"].weight) if self.sizes.tied else self.lm_head(x)
