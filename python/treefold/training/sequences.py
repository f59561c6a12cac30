"""Models of sequences and of preferences: Transformer, BERT, Megatron's GPT-2, Llama 3, NCF.

A transformer's block is attention and a perceptron of two layers. Tensor parallelism cuts both as Megatron does
(Shoeybi et al., 2019): it cuts the filters of the first product and the channels of the second, so that the ranks add
partial sums once after each pair in the forward pass, and once before it in the backward pass. An embedding has
parameters and traffic but no product; the projection onto the vocabulary shares its weights.
"""

from functools import partial
from itertools import pairwise
from typing import NamedTuple

from treefold.training.layers import DATA, RELU, Elementwise, Layer, Model, linear, renamed

_RESIDUAL = Elementwise(accesses=8, kernels=3)
"""Dropout, the residual sum and a layer norm follow each half of a block."""
_SOFTMAX = Elementwise(accesses=6, kernels=3)
"""The mask, the softmax and dropout follow the scores of attention."""
_PREDICTED = Elementwise(accesses=3, kernels=1)
"""A softmax follows the projection onto the vocabulary; it reads each number twice and writes it."""


def _lookup(name: str, entries: int, width: int, positions: int, extra_parameters: int = 0) -> Layer:
    """Return an embedding, which reads and writes a vector for each position and multiplies nothing."""
    return Layer(
        name,
        parameters=entries * width + extra_parameters,
        elements=2 * positions * width,
        kernels=1,
        filters=width,
        inputs=positions,
        split="rows",
    )


def _attention(width: int, heads: int, queries: int, keys: int, *, is_cross: bool = False) -> list[Layer]:
    """Return an attention of `queries` positions over `keys` positions, and the layer norm after it."""
    if is_cross:
        projections = [
            linear("query", width, width, positions=queries, extra_parameters=width, split="columns"),
            linear("keys-values", width, 2 * width, positions=keys, extra_parameters=2 * width, split="columns"),
        ]
    else:
        projections = [linear("qkv", width, 3 * width, positions=queries, extra_parameters=3 * width, split="columns")]
    head_width = width // heads
    return [
        *projections,
        Layer(
            "scores",
            inputs=queries,
            outputs=queries,
            channels=head_width,
            filters=keys,
            copies=heads,
            elements=_SOFTMAX.accesses * heads * queries * keys,
            kernels=_SOFTMAX.kernels,
            split="heads",
            operand=DATA,
        ),
        Layer(
            "context",
            inputs=queries,
            outputs=queries,
            channels=keys,
            filters=head_width,
            copies=heads,
            split="heads",
            operand=DATA,
        ),
        _back_into_the_sum("output", width, width, queries),
    ]


def _back_into_the_sum(name: str, channels: int, width: int, positions: int) -> Layer:
    """Return the linear layer that ends half a block, with its bias and the layer norm's two vectors."""
    return linear(
        name,
        channels,
        width,
        positions=positions,
        extra_parameters=3 * width,
        elementwise=_RESIDUAL,
        split="rows",
    )


def _perceptron(width: int, inner: int, positions: int) -> list[Layer]:
    return [
        linear("ff1", width, inner, positions=positions, extra_parameters=inner, elementwise=RELU, split="columns"),
        _back_into_the_sum("ff2", inner, width, positions),
    ]


def _encoders(prefix: str, blocks: int, width: int, heads: int, inner: int, positions: int) -> list[Layer]:
    """Return blocks, each with self-attention and a perceptron of two layers."""
    block = [*_attention(width, heads, positions, positions), *_perceptron(width, inner, positions)]
    return [layer for number in range(blocks) for layer in renamed(block, f"{prefix}{number}.")]


def _predictions(width: int, vocabulary: int, positions: int) -> Layer:
    """Return the projection onto the vocabulary, which shares the embedding's weights, and its softmax."""
    return linear(
        "vocabulary", width, vocabulary, positions=positions, elementwise=_PREDICTED, split="columns", is_tied=True
    )


def transformer(sentence: int = 80) -> Model:
    """Return Transformer-big for translation, with six encoders, six decoders and 211 million parameters."""
    width, inner, heads, vocabulary = 1024, 4096, 16, 33708
    layers = [_lookup("embedding", vocabulary, width, 2 * sentence)]
    layers += _encoders("encoder", 6, width, heads, inner, sentence)
    for block in range(6):
        decoder = [
            *_attention(width, heads, sentence, sentence),
            *renamed(_attention(width, heads, sentence, sentence, is_cross=True), "cross."),
            *_perceptron(width, inner, sentence),
        ]
        layers += renamed(decoder, f"decoder{block}.")
    layers.append(_predictions(width, vocabulary, sentence))
    return Model("transformer", tuple(layers), f"sentence of {sentence} tokens", sentence)


def bert(name: str, width: int, heads: int, blocks: int, sentence: int = 512) -> Model:
    """Return BERT with its pooler; it predicts 15 % of the tokens, with the embedding's weights."""
    positions, kinds, vocabulary = 512, 2, 30522
    norm = 2 * width
    layers = [_lookup("embeddings", vocabulary, width, sentence, (positions + kinds) * width + norm)]
    layers += _encoders("layer", blocks, width, heads, 4 * width, sentence)
    layers += [
        linear("pooler", width, width, extra_parameters=width),
        _predictions(width, vocabulary, sentence * 3 // 20),
    ]
    return Model(name, tuple(layers), f"sentence of {sentence} tokens", sentence)


def megatron(name: str, width: int, heads: int, blocks: int, sentence: int = 1024) -> Model:
    """Return a GPT-2 in one of the sizes that Megatron trained."""
    vocabulary = 50257
    layers = [
        _lookup("embedding", vocabulary, width, sentence),
        Layer("positions", parameters=sentence * width, elements=3 * sentence * width, kernels=1),
    ]
    layers += _encoders("layer", blocks, width, heads, 4 * width, sentence)
    layers += [
        Layer("norm", parameters=2 * width, elements=3 * sentence * width, kernels=1),
        _predictions(width, vocabulary, sentence),
    ]
    return Model(name, tuple(layers), f"sequence of {sentence} tokens", sentence)


_RMS_NORM = Elementwise(accesses=6, kernels=2)
"""The residual sum, and an RMS norm, which reads each number twice and writes it, follow each half of a block."""
_ROTATION = Elementwise(accesses=2, kernels=2)
"""Rotary embeddings read and write queries and keys."""
_SWIGLU_ACCESSES = 5
"""For each number, SiLU reads a gate and writes it; the product reads it and a value, and is written."""


class LlamaShape(NamedTuple):
    """The configuration of a Llama 3, as it is published with the weights (`config.json`)."""

    width: int
    heads: int
    blocks: int
    inner: int
    key_heads: int = 8
    vocabulary: int = 128_256


def llama(name: str, shape: LlamaShape, sentence: int = 8192) -> Model:
    """Return a Llama 3 (Grattafiori et al., 2024).

    Groups of heads share their keys and values, the perceptron has a gate (SwiGLU), norms have one vector and products
    no bias, and the projection onto the vocabulary has weights of its own. Attention is fused: scores stay on the chip.
    """
    width, heads = shape.width, shape.heads
    head_width = width // heads
    products = width + 2 * shape.key_heads * head_width
    scores = Layer(
        "scores",
        inputs=sentence,
        outputs=sentence,
        channels=head_width,
        filters=sentence,
        copies=heads,
        split="heads",
        operand=DATA,
        is_fused=True,
    )
    back = partial(linear, positions=sentence, extra_parameters=width, elementwise=_RMS_NORM, split="rows")
    block = [
        linear("qkv", width, products, positions=sentence, elementwise=_ROTATION, split="columns"),
        scores,
        scores._replace(name="context", channels=sentence, filters=head_width),
        back("output", width, width),
        linear("gate-up", width, 2 * shape.inner, positions=sentence, split="columns")._replace(
            elements=_SWIGLU_ACCESSES * sentence * shape.inner, kernels=2
        ),
        back("down", shape.inner, width),
    ]
    layers = [_lookup("embedding", shape.vocabulary, width, sentence)]
    layers += [layer for number in range(shape.blocks) for layer in renamed(block, f"layer{number}.")]
    layers += [
        Layer("norm", parameters=width, elements=3 * sentence * width, kernels=1),
        linear("vocabulary", width, shape.vocabulary, positions=sentence, elementwise=_PREDICTED, split="columns"),
    ]
    return Model(name, tuple(layers), f"sequence of {sentence} tokens", sentence, "h100")


def ncf() -> Model:
    """Return MLPerf's neural collaborative filtering of 20 million film ratings, with 31.8 million parameters."""
    users, items = 138_493, 26_744
    embeddings = [
        _lookup(f"{kind}.{side}", entries, width, 1)
        for kind, width in (("mf", 64), ("mlp", 128))
        for side, entries in (("user", users), ("item", items))
    ]
    widths = [256, 256, 128, 64]
    perceptron = [
        linear(f"fc{place}", channels, filters, extra_parameters=filters, elementwise=RELU)
        for place, (channels, filters) in enumerate(pairwise(widths), 1)
    ]
    return Model("ncf", (*embeddings, *perceptron, linear("predict", 128, 1, extra_parameters=1)), "rating")
