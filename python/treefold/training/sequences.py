"""Models of sequences and of preferences: Transformer, BERT, Megatron's GPT-2, NCF.

A transformer's block is attention and a perceptron of two layers. With heads of their own, tensor parallelism cuts both
in the way of Megatron (Shoeybi et al., 2019): filters of the first product, channels of the second, so that ranks add
partial sums once behind each pair in the forward pass, and once before it in the backward pass. An embedding is
parameters and traffic; a projection onto the vocabulary shares its weights.
"""

from itertools import pairwise

from treefold.training.layers import DATA, Layer, Model, linear, renamed

_RESIDUAL = 8
"""How often dropout, residual sum and layer norm, three kernels, touch a number."""
_SOFTMAX = 6
"""The same of mask, softmax and dropout."""


def _lookup(name: str, entries: int, width: int, positions: int, extra: int = 0) -> Layer:
    return Layer(
        name,
        parameters=entries * width + extra,
        elements=2 * positions * width,
        kernels=1,
        filters=width,
        inputs=positions,
        split="rows",
    )


def _attention(width: int, heads: int, asking: int, asked: int, *, is_cross: bool = False) -> list[Layer]:
    """Return an attention of `asking` positions over `asked` ones, with the layer norm behind it."""
    if is_cross:
        projections = [
            linear("query", width, width, positions=asking, extra=width, split="columns"),
            linear("keys-values", width, 2 * width, positions=asked, extra=2 * width, split="columns"),
        ]
    else:
        projections = [linear("qkv", width, 3 * width, positions=asking, extra=3 * width, split="columns")]
    each = width // heads
    return [
        *projections,
        Layer(
            "scores",
            inputs=asking,
            outputs=asking,
            channels=each,
            filters=asked,
            copies=heads,
            elements=_SOFTMAX * heads * asking * asked,
            kernels=3,
            split="heads",
            operand=DATA,
        ),
        Layer(
            "context",
            inputs=asking,
            outputs=asking,
            channels=asked,
            filters=each,
            copies=heads,
            split="heads",
            operand=DATA,
        ),
        _joined(linear("output", width, width, positions=asking, extra=3 * width, split="rows")),
    ]


def _joined(layer: Layer) -> Layer:
    """Return a layer with what follows it: dropout, the residual sum and a layer norm."""
    return layer._replace(elements=_RESIDUAL * layer.outputs * layer.filters, kernels=3)


def _perceptron(width: int, inner: int, positions: int) -> list[Layer]:
    return [
        linear("ff1", width, inner, positions=positions, extra=inner, touched=2, kernels=1, split="columns"),
        _joined(linear("ff2", inner, width, positions=positions, extra=3 * width, split="rows")),
    ]


def _encoders(prefix: str, blocks: int, width: int, heads: int, inner: int, positions: int) -> list[Layer]:
    """Return blocks of attention over the same positions and a perceptron."""
    block = [*_attention(width, heads, positions, positions), *_perceptron(width, inner, positions)]
    return [layer for number in range(blocks) for layer in renamed(block, f"{prefix}{number}.")]


def _predictions(width: int, vocabulary: int, positions: int) -> Layer:
    """Return the projection onto the vocabulary, with the embedding's weights, and its softmax."""
    return linear(
        "vocabulary", width, vocabulary, positions=positions, touched=3, kernels=1, split="columns", is_tied=True
    )


def transformer(sentence: int = 80) -> Model:
    """Return Transformer-big for translation: six encoders, six decoders, one vocabulary: 211 million parameters."""
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
    return Model("transformer", tuple(layers), f"sentence of {sentence} tokens")


def bert(name: str, width: int, heads: int, blocks: int, sentence: int = 512) -> Model:
    """Return BERT with its pooler; 15 % of the tokens are predicted, with the embedding's weights."""
    positions, kinds, vocabulary = 512, 2, 30522
    norm = 2 * width
    layers = [_lookup("embeddings", vocabulary, width, sentence, (positions + kinds) * width + norm)]
    layers += _encoders("layer", blocks, width, heads, 4 * width, sentence)
    layers += [
        linear("pooler", width, width, extra=width),
        _predictions(width, vocabulary, sentence * 3 // 20),
    ]
    return Model(name, tuple(layers), f"sentence of {sentence} tokens")


def megatron(name: str, width: int, heads: int, blocks: int, sentence: int = 1024) -> Model:
    """Return a GPT-2 of Megatron's sizes."""
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
    return Model(name, tuple(layers), f"sequence of {sentence} tokens")


def ncf() -> Model:
    """Return neural collaborative filtering as in MLPerf, on 20 million ratings of films: 31.8 million parameters."""
    users, items = 138_493, 26_744
    embeddings = [
        _lookup(f"{kind}.{side}", entries, width, 1)
        for kind, width in (("mf", 64), ("mlp", 128))
        for side, entries in (("user", users), ("item", items))
    ]
    widths = [256, 256, 128, 64]
    perceptron = [
        linear(f"fc{place}", into, out, extra=out, touched=2, kernels=1)
        for place, (into, out) in enumerate(pairwise(widths), 1)
    ]
    return Model("ncf", (*embeddings, *perceptron, linear("predict", 128, 1, extra=1)), "rating")
