"""The transformers as plain torch.nn modules: nanoGPT's and Hugging Face's keys, output matrices untied."""

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
