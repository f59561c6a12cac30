"""Convolutional models as they are trained: AlexNet, GoogLeNet, ResNet-50, Faster R-CNN, AlphaGo Zero.

The first four have exactly the parameters of torchvision's models; AlphaGo Zero is the network of 20 blocks in its
paper (Silver et al., Nature 2017). A batch norm has two parameters for each channel.
"""

from treefold.training.layers import NO_WORK, RELU, Elementwise, Layer, Model, Window, convolution, linear
from treefold.training.published import INCEPTIONS

_NORM = Elementwise(accesses=3, kernels=1)
"""A batch norm reads each number twice and writes it."""
_SUM = Elementwise(accesses=3, kernels=1)
"""A residual sum reads two numbers and writes one."""


def _normed(
    name: str, size: tuple[int, int], side: int, channels: int, filters: int, stride: int = 1, after: Elementwise = RELU
) -> Layer:
    """Return a convolution whose padding keeps the size, its batch norm, and the work `after` that."""
    return convolution(
        name,
        size,
        Window(side, side, stride=stride, padding=side // 2),
        channels,
        filters,
        extra_parameters=2 * filters,
        elementwise=_NORM + after,
    )


def _halved(size: tuple[int, int]) -> tuple[int, int]:
    return -(-size[0] // 2), -(-size[1] // 2)


def alexnet() -> Model:
    """Return AlexNet, with 61.1 million parameters, on images of 224 x 224."""
    shapes = [(224, 11, 3, 64, 4, 2), (27, 5, 64, 192, 1, 2), (13, 3, 192, 384, 1, 1), (13, 3, 384, 256, 1, 1)]
    shapes.append((13, 3, 256, 256, 1, 1))
    features = [
        convolution(
            f"conv{place}",
            (side, side),
            Window(window, window, stride=stride, padding=padding),
            channels,
            filters,
            extra_parameters=filters,
            elementwise=RELU,
        )
        for place, (side, window, channels, filters, stride, padding) in enumerate(shapes, 1)
    ]
    classifier = [
        linear("fc6", 9216, 4096, extra_parameters=4096, elementwise=RELU),
        linear("fc7", 4096, 4096, extra_parameters=4096, elementwise=RELU),
        linear("fc8", 4096, 1000, extra_parameters=1000),
    ]
    return Model("alexnet", (*features, *classifier), "image")


def googlenet() -> Model:
    """Return GoogLeNet with batch norms and without its auxiliary heads; it has 6.6 million parameters."""
    layers = [
        _normed("conv1", (224, 224), 7, 3, 64, 2),
        _normed("conv2", (56, 56), 1, 64, 64),
        _normed("conv3", (56, 56), 3, 64, 192),
    ]
    for name, side, channels, one, before3, three, before5, five, pooled in INCEPTIONS:
        size = (side, side)
        layers += [
            _normed(f"{name}.1x1", size, 1, channels, one),
            _normed(f"{name}.before3x3", size, 1, channels, before3),
            _normed(f"{name}.3x3", size, 3, before3, three),
            _normed(f"{name}.before5x5", size, 1, channels, before5),
            # The paper has windows of five here; torchvision's model, which people train, has windows of three.
            _normed(f"{name}.5x5", size, 3, before5, five),
            _normed(f"{name}.pooled", size, 1, channels, pooled),
        ]
    return Model("googlenet", (*layers, linear("fc", 1024, 1000, extra_parameters=1000)), "image")


def _backbone(size: tuple[int, int]) -> tuple[list[Layer], list[tuple[int, int]]]:
    """Return the layers of ResNet-50 without its classifier, and the size after each of its four stages."""
    layers = [_normed("conv1", size, 7, 3, 64, 2)]
    size, channels, sizes = _halved(_halved(size)), 64, []
    for stage, count in enumerate((3, 4, 6, 3), 1):
        width = 32 << stage
        for block in range(count):
            name, stride, before = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1, size
            size = _halved(size) if stride == 2 else size
            layers += [
                _normed(f"{name}.conv1", before, 1, channels, width),
                _normed(f"{name}.conv2", before, 3, width, width, stride),
                _normed(f"{name}.conv3", size, 1, width, 4 * width, after=_SUM + RELU),
            ]
            if block == 0:
                layers.append(_normed(f"{name}.downsample", before, 1, channels, 4 * width, stride, after=NO_WORK))
            channels = 4 * width
        sizes.append(size)
    return layers, sizes


def resnet50() -> Model:
    """Return ResNet-50, with 25.6 million parameters, on images of 224 x 224."""
    return Model("resnet50", (*_backbone((224, 224))[0], linear("fc", 2048, 1000, extra_parameters=1000)), "image")


_RCNN_SIZE = (800, 1344)
"""Images have 800 x 1333 pixels and are padded to multiples of 32."""
_REGIONS = 512
"""The heads learn from this many regions of an image."""


def fasterrcnn() -> Model:
    """Return Faster R-CNN with a feature pyramid on ResNet-50; it has 41.8 million parameters."""
    backbone, sizes = _backbone(_RCNN_SIZE)
    inner = [
        convolution(f"fpn.inner{place}", size, Window(1, 1), 256 << place, 256, extra_parameters=256, elementwise=_SUM)
        for place, size in enumerate(sizes)
    ]
    outer = [
        convolution(f"fpn.layer{place}", size, Window(3, 3, padding=1), 256, 256, extra_parameters=256)
        for place, size in enumerate(sizes)
    ]
    pixels = sum(height * width for height, width in [*sizes, _halved(sizes[-1])])
    proposals = [
        # The same head slides over all five levels of the pyramid.
        _over("rpn.conv", pixels, 9, 256, 256, RELU),
        _over("rpn.classes", pixels, 1, 256, 3),
        _over("rpn.boxes", pixels, 1, 256, 12),
    ]
    heads = [
        linear("roi.fc6", 12544, 1024, positions=_REGIONS, extra_parameters=1024, elementwise=RELU),
        linear("roi.fc7", 1024, 1024, positions=_REGIONS, extra_parameters=1024, elementwise=RELU),
        linear("roi.classes", 1024, 91, positions=_REGIONS, extra_parameters=91),
        linear("roi.boxes", 1024, 364, positions=_REGIONS, extra_parameters=364),
    ]
    return Model("fasterrcnn", (*backbone, *inner, *outer, *proposals, *heads), "image")


def _over(
    name: str, pixels: int, window: int, channels: int, filters: int, elementwise: Elementwise = NO_WORK
) -> Layer:
    """Return a convolution over so many pixels, whatever the shapes of the images that they belong to."""
    return Layer(
        name,
        inputs=pixels,
        outputs=pixels,
        window=window,
        channels=channels,
        filters=filters,
        parameters=window * channels * filters + filters,
        elements=elementwise.accesses * pixels * filters,
        kernels=elementwise.kernels,
    )


def alphagozero() -> Model:
    """Return AlphaGo Zero's network of 20 blocks, with 22.8 million parameters."""
    board = (19, 19)
    layers = [_normed("conv", board, 3, 17, 256)]
    for block in range(19):
        layers += [
            _normed(f"residual{block}.conv1", board, 3, 256, 256),
            _normed(f"residual{block}.conv2", board, 3, 256, 256, after=_SUM + RELU),
        ]
    policy = [_normed("policy.conv", board, 1, 256, 2), linear("policy.fc", 722, 362, extra_parameters=362)]
    value = [
        _normed("value.conv", board, 1, 256, 1),
        linear("value.fc1", 361, 256, extra_parameters=256, elementwise=RELU),
        linear("value.fc2", 256, 1, extra_parameters=1),
    ]
    return Model("alphagozero", (*layers, *policy, *value), "position")
