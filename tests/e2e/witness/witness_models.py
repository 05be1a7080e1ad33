"""Every model family as plain torch.nn modules, with the state_dict keys that bitrift-train writes.

They share no code with bitrift. What differs from torchvision, nanoGPT and Hugging Face is said at the class; dropout
is counter-based everywhere, so that a mask depends on seed, step and sample alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
import witness_text
from torch import Tensor, nn
from witness_dropout import Context, Dropout


class LeNet(nn.Module):
    def __init__(self, image: Sequence[int], classes: int) -> None:
        super().__init__()
        channels, height, width = image
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5, padding=2)
        self.fc1 = nn.Linear(16 * (height // 4) * (width // 4), 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


class Mlp(nn.Module):
    def __init__(self, image: Sequence[int], classes: int, hidden: Sequence[int], norm: bool) -> None:
        super().__init__()
        widths = [image[0] * image[1] * image[2], *hidden, classes]
        self.depth = len(hidden)
        for i in range(len(widths) - 1):
            self.add_module(f"fc{i + 1}", nn.Linear(widths[i], widths[i + 1]))
            if norm and i < self.depth:
                self.add_module(f"bn{i + 1}", nn.BatchNorm1d(widths[i + 1]))

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        layers = dict(self.named_children())
        for i in range(1, self.depth + 1):
            x = layers[f"fc{i}"](x)
            if f"bn{i}" in layers:
                x = layers[f"bn{i}"](x)
            x = F.relu(x)
        return layers[f"fc{self.depth + 1}"](x)


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A convolution without bias that keeps the size but for its stride."""
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class PaddedShortcut(nn.Module):
    """He et al. 2016, section 3.3, option A: every second pixel, new channels of zeros (half before, half behind)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.before = (outputs - inputs) // 2
        self.behind = outputs - inputs - self.before

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.before, self.behind))


class BasicBlock(nn.Module):
    def __init__(
        self, inputs: int, outputs: int, stride: int, shortcut: nn.Module | None, padded: bool = False
    ) -> None:
        super().__init__()
        self.conv1 = conv(inputs, outputs, 3, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = conv(outputs, outputs, 3)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = PaddedShortcut(inputs, outputs) if padded else shortcut

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, shortcut: nn.Module | None) -> None:
        super().__init__()
        inner = outputs // 4
        self.conv1 = conv(inputs, inner, 1)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = conv(inner, inner, 3, stride)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = conv(inner, outputs, 1)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = shortcut

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """resnet18 and resnet50 as torchvision's; stem cifar: a 3x3 convolution of stride 1, no pooling."""

    def __init__(
        self, block: type[BasicBlock | Bottleneck], depths: Sequence[int], image: Sequence[int], classes: int,
        small: bool, cifar: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        widths = [scaled(w, small) for w in (64, 128, 256, 512)]
        expansion = 4 if block is Bottleneck else 1
        inputs = widths[0]
        self.cifar = cifar
        self.conv1 = conv(image[0], inputs, 3) if cifar else conv(image[0], inputs, 7, 2)
        self.bn1 = nn.BatchNorm2d(inputs)
        for i, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            blocks = []
            for j in range(depth):
                stride, outputs = 2 if i > 0 and j == 0 else 1, width * expansion
                shortcut = None
                if stride != 1 or inputs != outputs:
                    shortcut = nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
                blocks.append(block(inputs, outputs, stride, shortcut))
                inputs = outputs
            self.add_module(f"layer{i + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        if not self.cifar:
            x = F.max_pool2d(x, 3, 2, 1)
        for i in range(1, 5):
            x = self.get_submodule(f"layer{i}")(x)
        return self.fc(F.adaptive_avg_pool2d(x, (1, 1)).flatten(1))


class ResNet20(nn.Module):
    """He et al. 2016, section 4.2: three groups of three blocks, shortcuts without parameters. Small: a quarter."""

    def __init__(self, image: Sequence[int], classes: int, small: bool) -> None:
        super().__init__()
        widths = [4, 8, 16] if small else [16, 32, 64]
        inputs = widths[0]
        self.conv1 = conv(image[0], inputs, 3)
        self.bn1 = nn.BatchNorm2d(inputs)
        for i, width in enumerate(widths):
            blocks = []
            for j in range(3):
                narrow = i > 0 and j == 0
                blocks.append(BasicBlock(inputs, width, 2 if narrow else 1, None, padded=narrow))
                inputs = width
            self.add_module(f"layer{i + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        for i in range(1, 4):
            x = self.get_submodule(f"layer{i}")(x)
        return self.fc(F.adaptive_avg_pool2d(x, (1, 1)).flatten(1))


class Classified(nn.Module):
    """features, a pool to a fixed size, classifier: AlexNet and VGG."""

    def __init__(self, features: nn.Sequential, pooled: int, classifier: nn.Sequential) -> None:
        super().__init__()
        self.features, self.pooled, self.classifier = features, pooled, classifier

    def forward(self, x: Tensor) -> Tensor:
        x = F.adaptive_avg_pool2d(self.features(x), (self.pooled, self.pooled))
        return self.classifier(x.flatten(1))


def alexnet(image: Sequence[int], classes: int, small: bool, p: float | None, context: Context) -> nn.Module:
    a, b, c, d, hidden = (scaled(w, small) for w in (64, 192, 384, 256, 4096))
    p = 0.5 if p is None else p
    features = nn.Sequential(
        nn.Conv2d(image[0], a, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(a, b, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(b, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, d, 3, padding=1), nn.ReLU(),
        nn.Conv2d(d, d, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2),
    )  # fmt: skip
    classifier = nn.Sequential(
        Dropout(p, "classifier.0", context), nn.Linear(d * 36, hidden), nn.ReLU(),
        Dropout(p, "classifier.3", context), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes),
    )  # fmt: skip
    return Classified(features, 6, classifier)


def vgg16(image: Sequence[int], classes: int, small: bool, p: float | None, context: Context, norm: bool) -> nn.Module:
    features: list[nn.Module] = []
    inputs, p = image[0], 0.5 if p is None else p
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        outputs = scaled(width, small)
        for _ in range(depth):
            features.append(nn.Conv2d(inputs, outputs, 3, padding=1))
            features += [nn.BatchNorm2d(outputs), nn.ReLU()] if norm else [nn.ReLU()]
            inputs = outputs
        features.append(nn.MaxPool2d(2, 2))
    hidden = scaled(4096, small)
    classifier = nn.Sequential(
        nn.Linear(inputs * 49, hidden), nn.ReLU(), Dropout(p, "classifier.2", context),
        nn.Linear(hidden, hidden), nn.ReLU(), Dropout(p, "classifier.5", context), nn.Linear(hidden, classes),
    )  # fmt: skip
    return Classified(nn.Sequential(*features), 7, classifier)


class BasicConv2d(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = conv(inputs, outputs, kernel, stride)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)))


class Inception(nn.Module):
    """As torchvision's: the third branch has a 3x3 kernel where Szegedy et al. 2015 have 5x5."""

    def __init__(self, inputs: int, widths: Sequence[int]) -> None:
        super().__init__()
        one, reduce3, three, reduce5, five, pooled = widths
        self.outputs = one + three + five + pooled
        self.branch1 = BasicConv2d(inputs, one, 1)
        self.branch2 = nn.Sequential(BasicConv2d(inputs, reduce3, 1), BasicConv2d(reduce3, three, 3))
        self.branch3 = nn.Sequential(BasicConv2d(inputs, reduce5, 1), BasicConv2d(reduce5, five, 3))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), BasicConv2d(inputs, pooled, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class InceptionAux(nn.Module):
    def __init__(self, inputs: int, classes: int, small: bool, dropout: Dropout) -> None:
        super().__init__()
        channels, hidden = scaled(128, small), scaled(1024, small)
        self.conv = BasicConv2d(inputs, channels, 1)
        self.fc1 = nn.Linear(channels * 16, hidden)
        self.fc2 = nn.Linear(hidden, classes)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(F.adaptive_avg_pool2d(x, (4, 4)))
        return self.fc2(self.dropout(F.relu(self.fc1(x.flatten(1)))))


INCEPTIONS = {
    "3a": (64, 96, 128, 16, 32, 32), "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64), "4b": (160, 112, 224, 24, 64, 64), "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64), "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128), "5b": (384, 192, 384, 48, 128, 128),
}  # fmt: skip


class GoogLeNet(nn.Module):
    """In training with auxiliary heads, forward gives (logits, [first head, second head])."""

    def __init__(
        self, image: Sequence[int], classes: int, small: bool, auxiliary: bool, p: float | None, context: Context
    ) -> None:
        super().__init__()
        stem, third = scaled(64, small), scaled(192, small)
        self.conv1 = BasicConv2d(image[0], stem, 7, 2)
        self.conv2 = BasicConv2d(stem, stem, 1)
        self.conv3 = BasicConv2d(stem, third, 3)
        inputs, heads = third, {}
        for name, widths in INCEPTIONS.items():
            block = Inception(inputs, [scaled(w, small) for w in widths])
            self.add_module(f"inception{name}", block)
            inputs = heads[name] = block.outputs
        self.auxiliary = auxiliary
        if auxiliary:
            head_p = 0.7 if p is None else p
            self.aux1 = InceptionAux(heads["4a"], classes, small, Dropout(head_p, "aux1.dropout", context))
            self.aux2 = InceptionAux(heads["4d"], classes, small, Dropout(head_p, "aux2.dropout", context))
        self.dropout = Dropout(0.2 if p is None else p, "dropout", context)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, list[Tensor]]:
        x = F.max_pool2d(self.conv1(x), 3, 2, ceil_mode=True)
        x = F.max_pool2d(self.conv3(self.conv2(x)), 3, 2, ceil_mode=True)
        heads = []
        for name in INCEPTIONS:
            x = self.get_submodule(f"inception{name}")(x)
            if name == "3b":
                x = F.max_pool2d(x, 3, 2, ceil_mode=True)
            elif name == "4e":
                x = F.max_pool2d(x, 2, 2, ceil_mode=True)
            elif name in ("4a", "4d") and self.auxiliary and self.training:
                heads.append((self.aux1 if name == "4a" else self.aux2)(x))
        y = self.fc(self.dropout(F.adaptive_avg_pool2d(x, (1, 1)).flatten(1)))
        return (y, heads) if heads else y


def scaled(width: int, small: bool) -> int:
    return max(1, width // 8) if small else width


def llama(spec: dict[str, Any], text: dict[str, int]) -> witness_text.Llama:
    wide = -(-(8 * spec["width"] // 3) // 32) * 32
    own = {"kv_heads": spec.get("kv_heads", spec["heads"]), "feed_forward": spec.get("feed_forward", wide)}
    return witness_text.Llama(witness_text.LlamaSizes(**text, **own, tied=spec.get("tied", False)))


def make_model(spec: dict[str, Any], sample: Sequence[int], classes: int, context: Context | None = None) -> nn.Module:
    """The model that a spec's `model` object names, for samples of that shape ([channels, height, width] or [context]).

    Dropout layers read seed, step and sample numbers from `context` at each forward pass in training.
    """
    context = context or Context()
    small, p = spec.get("width") == "small", spec.get("dropout")
    cifar = spec.get("stem", "imagenet") == "cifar"
    text = {"context": sample[0], "vocabulary": classes}
    text |= {key: spec[key] for key in ("layers", "heads", "width") if spec["name"] in ("gpt", "bert", "llama")}
    families: dict[str, Callable[[], nn.Module]] = {
        "lenet": lambda: LeNet(sample, classes),
        "mlp": lambda: Mlp(sample, classes, spec["hidden"], spec.get("norm") == "batch"),
        "resnet20": lambda: ResNet20(sample, classes, small),
        "resnet18": lambda: ResNet(BasicBlock, (2, 2, 2, 2), sample, classes, small, cifar),
        "resnet50": lambda: ResNet(Bottleneck, (3, 4, 6, 3), sample, classes, small, cifar),
        "alexnet": lambda: alexnet(sample, classes, small, p, context),
        "vgg16": lambda: vgg16(sample, classes, small, p, context, norm=False),
        "vgg16_bn": lambda: vgg16(sample, classes, small, p, context, norm=True),
        "googlenet": lambda: GoogLeNet(sample, classes, small, spec.get("auxiliary", True), p, context),
        "gpt": lambda: witness_text.Gpt(witness_text.Sizes(**text), p or 0.0, context),
        "bert": lambda: witness_text.Bert(witness_text.Sizes(**text), 0.1 if p is None else p, context),
        "llama": lambda: llama(spec, text),
    }
    return families[spec["name"]]()


def loss_of(output: Tensor | tuple[Tensor, list[Tensor]], labels: Tensor) -> Tensor:
    """Cross-entropy, and 0.3 of that of each auxiliary head (Szegedy et al. 2015, section 5)."""
    logits, heads = output if isinstance(output, tuple) else (output, [])
    loss = F.cross_entropy(logits.flatten(0, -2), labels.flatten())
    for head in heads:
        loss = loss + 0.3 * F.cross_entropy(head, labels)
    return loss
