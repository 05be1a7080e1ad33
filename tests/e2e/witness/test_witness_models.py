"""The witness models are what they are named after: published parameter counts, torch's keys, masks by the formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from philox import dropout_kept
from witness_dropout import Context, Dropout
from witness_models import make_model

IMAGE = [3, 224, 224]
BLOCKS = {"layers": 12, "heads": 12, "width": 768}
# torchvision.models; resnet20: table 6 of He et al. 2016 says 0.27 M; bert: google-bert/bert-base-uncased without its
# pooler has 109,514,298 with a tied decoder, and gpt2 124,439,808: untied, a vocabulary of rows more.
PUBLISHED = {
    "alexnet": ({}, IMAGE, 1000, 61_100_840),
    "vgg16": ({}, IMAGE, 1000, 138_357_544),
    "vgg16_bn": ({}, IMAGE, 1000, 138_365_992),
    "resnet18": ({}, IMAGE, 1000, 11_689_512),
    "resnet50": ({}, IMAGE, 1000, 25_557_032),
    "googlenet": ({}, IMAGE, 1000, 13_004_888),
    "resnet20": ({}, [3, 32, 32], 10, 269_722),
    "gpt": (BLOCKS, [1024], 50257, 124_439_808 + 50257 * 768),
    "bert": (BLOCKS, [512], 30522, 109_514_298 + 30522 * 768),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_as_many_as_published(name: str) -> None:
    spec, sample, classes, count = PUBLISHED[name]
    with torch.device("meta"):
        model = make_model({"name": name} | spec, sample, classes)
    assert sum(p.numel() for p in model.parameters()) == count


@pytest.mark.parametrize("name", ["resnet20", "resnet18", "resnet50", "alexnet", "vgg16", "vgg16_bn", "googlenet"])
def test_small_models_have_the_keys_of_full_ones(name: str) -> None:
    def state(spec: dict) -> dict[str, torch.Tensor]:
        with torch.device("meta"):
            return make_model({"name": name} | spec, IMAGE, 10).state_dict()

    full, small = state({}), state({"width": "small"})
    assert list(full) == list(small)
    assert sum(v.numel() for v in small.values()) < sum(v.numel() for v in full.values()) / 15


def test_masks_do_not_depend_on_the_rows_beside_them() -> None:
    rows = dropout_kept(5, "d", 8, [3, 5_000_000_000, 1], 7, 0.4)
    for i, sample in enumerate([3, 5_000_000_000, 1]):
        assert np.array_equal(dropout_kept(5, "d", 8, [sample], 7, 0.4)[0], rows[i])
    assert np.array_equal(dropout_kept(5, "d", 8, [3], 6, 0.4)[0], rows[0, :6])
    assert not np.array_equal(dropout_kept(5, "d", 9, [3], 64, 0.4), dropout_kept(5, "d", 8, [3], 64, 0.4))
    assert not np.array_equal(dropout_kept(5, "e", 8, [3], 64, 0.4), dropout_kept(5, "d", 8, [3], 64, 0.4))


def test_masks_keep_the_share_that_they_say() -> None:
    kept = dropout_kept(1, "d", 0, range(200), 1000, 0.3).mean()
    assert abs(kept - 0.7) < 5 * (0.3 * 0.7 / 200_000) ** 0.5


def test_dropout_scales_what_it_keeps_in_training_only() -> None:
    layer = Dropout(0.25, "d", Context(seed=2, step=3, samples=[0, 1]))
    x = torch.ones(2, 3, 50, dtype=torch.float64)
    assert set(layer(x).unique().tolist()) == {0.0, 1 / 0.75}
    assert layer.eval()(x) is x
