"""The layers that the MultiTree paper trained (its section V-B), with the shapes that come with SCALE-Sim.

The layers are products only, without padding, biases, norms or pooling. Some models differ from the real ones, and stay
as the paper ran them: AlexNet has its convolutions only, AlphaGoZero one residual block, Transformer a single token,
and GoogLeNet three typing errors. The source of the shapes is the folder `topologies` of SCALE-Sim (MIT licence).
"""

from itertools import pairwise

from treefold.training.layers import Layer, Model, Window, convolution, linear


def _square(name: str, side: int, window: int, channels: int, filters: int, stride: int = 1) -> Layer:
    return convolution(name, (side, side), Window(window, window, stride=stride), channels, filters)


def alexnet() -> Model:
    """Return the five convolutions, which have 3.7 million of the real model's 61 million parameters."""
    shapes = [
        (224, 11, 3, 96, 4),
        (207, 5, 96, 256, 1),
        (13, 3, 256, 384, 1),
        (13, 3, 384, 384, 1),
        (13, 3, 384, 256, 1),
    ]
    return Model("alexnet:paper", tuple(_square(f"conv{place}", *shape) for place, shape in enumerate(shapes, 1)))


def alphagozero() -> Model:
    """Return the first convolution, one residual block, and the two heads."""
    side = 19
    body = [
        _square("conv", side, 3, 17, 256),
        _square("residual.conv1", side, 3, 256, 256),
        _square("residual.conv2", side, 3, 256, 256),
    ]
    value = [_square("value.conv", side, 1, 256, 1), linear("value.fc1", 361, 256), linear("value.fc2", 256, 1)]
    policy = [_square("policy.conv", side, 1, 256, 2), linear("policy.fc", 722, 362)]
    return Model("alphagozero:paper", (*body, *value, *policy))


def _residual_stages(blocks: tuple[int, ...]) -> list[Layer]:
    """Return ResNet's first convolution and its stages, each with the given number of bottlenecks."""
    layers = [_square("conv1", 224, 7, 3, 64, 2)]
    side, channels = 56, 64
    for stage, count in enumerate(blocks, 2):
        width, stride = 64 << stage - 2, 1 if stage == 2 else 2
        for block in range(count):
            name, before = f"stage{stage}.{block}", side
            side //= stride
            layers += [
                _square(f"{name}.conv1", before, 1, channels, width, stride),
                _square(f"{name}.conv2", side, 3, width, width),
                _square(f"{name}.conv3", side, 1, width, 4 * width),
            ]
            layers += [_square(f"{name}.shortcut", before, 1, channels, 4 * width, stride)] if block == 0 else []
            channels, stride = 4 * width, 1
    return layers


def resnet50() -> Model:
    """Return the convolutions and the classifier."""
    return Model("resnet50:paper", (*_residual_stages((3, 4, 6, 3)), linear("fc", 2048, 1000)))


def fasterrcnn() -> Model:
    """Return ResNet-50 up to its fourth stage, on small images, and the region proposals."""
    proposals = [
        _square("rpn.conv", 14, 3, 1024, 512),
        _square("rpn.boxes", 14, 1, 512, 36),
        _square("rpn.classes", 14, 1, 512, 18),
    ]
    return Model("fasterrcnn:paper", (*_residual_stages((3, 4, 6)), *proposals))


# Each row has a name, the side, the input channels, and the filters of six convolutions: the 1x1, the one before the
# 3x3, the 3x3, the one before the 5x5, the 5x5, and the one after the pooling.
INCEPTIONS = (
    ("3a", 28, 192, 64, 96, 128, 16, 32, 32),
    ("3b", 28, 256, 128, 128, 192, 32, 96, 64),
    ("4a", 14, 480, 192, 96, 208, 16, 48, 64),
    ("4b", 14, 512, 160, 112, 224, 24, 64, 64),
    ("4c", 14, 512, 128, 128, 256, 24, 64, 64),
    ("4d", 14, 512, 112, 144, 288, 32, 64, 64),
    ("4e", 14, 528, 256, 160, 320, 32, 128, 128),
    ("5a", 7, 832, 256, 160, 320, 32, 128, 128),
    ("5b", 7, 832, 384, 192, 384, 48, 128, 128),
)


def googlenet() -> Model:
    """Return the convolutions and the classifier, with the three typing errors of SCALE-Sim's file."""
    misprints = {
        "4c.5x5": _square("4c.5x5", 14, 1, 24, 64),
        "5a.before3x3": _square("5a.before3x3", 7, 1, 532, 160),
        "5b.5x5": _square("5b.5x5", 7, 5, 32, 128),
    }
    layers = [
        _square("conv1", 224, 7, 3, 64, 2),
        _square("conv2.before", 56, 1, 64, 64),
        _square("conv2", 56, 3, 64, 192),
    ]
    for name, side, channels, one, before3, three, before5, five, pooled in INCEPTIONS:
        layers += [
            _square(f"{name}.1x1", side, 1, channels, one),
            _square(f"{name}.before3x3", side, 1, channels, before3),
            _square(f"{name}.3x3", side, 3, before3, three),
            _square(f"{name}.before5x5", side, 1, channels, before5),
            _square(f"{name}.5x5", side, 5, before5, five),
            _square(f"{name}.pooled", side, 1, channels, pooled),
        ]
    layers.append(linear("fc", 1024, 1000))
    return Model("googlenet:paper", tuple(misprints.get(layer.name, layer) for layer in layers))


def ncf() -> Model:
    """Return the embeddings, as products with one-hot vectors, and the small perceptron."""
    entries = 138_000
    embeddings = [
        linear(f"{kind}.{side}", entries, width)
        for kind, width in (("mf", 8), ("mlp", 32))
        for side in ("user", "item")
    ]
    widths = [64, 32, 16, 8]
    perceptron = [linear(f"fc{place}", *pair) for place, pair in enumerate(pairwise(widths), 1)]
    return Model("ncf:paper", (*embeddings, *perceptron, linear("predict", 16, 1)))


def transformer() -> Model:
    """Return the base model, with six encoders and six decoders, for a single token."""
    embedding = convolution("embedding", (512, 1), Window(1, 1), 1, 33708)
    head = [
        *(linear(each, 512, 64) for each in ("values", "keys", "queries")),
        convolution("scores", (1, 64), Window(1, 1), 1, 64),
        convolution("weighted", (1, 64), Window(1, 1), 64, 1),
        linear("concat", 512, 512),
    ]
    feed = [linear("ff1", 512, 2048), linear("ff2", 2048, 512)]
    layers = [embedding, *(head * 8 + feed) * 6, embedding, *(head * 16 + feed) * 6, head[-1]]
    return Model(
        "transformer:paper", tuple(layer._replace(name=f"{place}.{layer.name}") for place, layer in enumerate(layers))
    )
