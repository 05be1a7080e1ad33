"""What `bitrift inject` changes, and what it leaves alone: read back by h5py, never by bitrift."""

from __future__ import annotations

from pathlib import Path

import h5py
import inject_support as support
import numpy as np
import pytest
from inject_support import changed_bytes, names_in, offset_of, refused, run, run_json

FORMAT_CASES = [
    (f"{name}/{order}", name, np.dtype(code).itemsize, order)
    for name, code in support.FORMATS.items()
    for order in ("le", "be")
]
FORMAT_CASES += [("bf16_le", "bfloat16", 2, "le"), ("bf16_be", "bfloat16", 2, "be")]


@pytest.fixture(scope="module")
def formats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return support.every_format(tmp_path_factory.mktemp("formats") / "formats.h5")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return support.model_file(tmp_path / "model.h5")


@pytest.mark.parametrize(("path", "dtype", "size", "order"), FORMAT_CASES)
def test_exactly_the_asked_bit_changes_in_every_format(
    formats: Path, tmp_path: Path, path: str, dtype: str, size: int, order: str
) -> None:
    before, start = formats.read_bytes(), offset_of(formats, path)
    for bit in (0, 8 * size // 2, 8 * size - 1):
        out = tmp_path / f"{bit}.h5"
        (fault,) = run_json("inject", formats, "-o", out, "--tensor", path, "--bits", bit, "--seed", 3)["faults"]
        assert fault["dtype"] == dtype
        assert fault["bits"] == [bit]
        assert fault["msb_first_bits"] == [8 * size - 1 - bit]
        byte = bit // 8 if order == "le" or size == 1 else size - 1 - bit // 8
        place = start + fault["element"] * size + byte
        assert changed_bytes(before, out.read_bytes()) == {place: 1 << bit % 8}
        raw = before[start + fault["element"] * size :][:size]
        pattern = int.from_bytes(raw, "little" if order == "le" else "big")
        assert int(fault["old"], 16) == pattern
        assert int(fault["new"], 16) == pattern ^ 1 << bit
        with h5py.File(out) as file:
            value = file[path][()].flat[fault["element"]]
        assert float(fault["new_value"]) == pytest.approx(float(value), rel=1e-6, nan_ok=True)


def test_all_bits_without_replacement_invert_the_tensor(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    result = run_json("inject", model, "-o", out, "--tensor", "model/conv1.bias", "--count", 7 * 32)
    assert result["eligible_bits"] == 7 * 32
    with h5py.File(model) as a, h5py.File(out) as b:
        old, new = a["model/conv1.bias"][()].view("u4"), b["model/conv1.bias"][()].view("u4")
        assert (old ^ new == 0xFFFFFFFF).all()
    refused("inject", model, "-o", out, "--tensor", "model/conv1.bias", "--count", 7 * 32 + 1, says="224 bits")


@pytest.mark.parametrize("measure", ["bit", "element", "tensor"])
def test_a_seed_gives_the_same_bytes_and_another_seed_others(model: Path, tmp_path: Path, measure: str) -> None:
    one, two, three = (tmp_path / name for name in ("1", "2", "3"))
    for out, seed in ((one, 5), (two, 5), (three, 6)):
        run("inject", model, "-o", out, "--count", 20, "--measure", measure, "--seed", seed)
    assert one.read_bytes() == two.read_bytes() != three.read_bytes()


def test_measure_element_hits_as_many_elements_as_faults(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    run("inject", model, "-o", out, "--tensor", "model/conv1.weight", "--measure", "element", "--count", 300)
    with h5py.File(model) as a, h5py.File(out) as b:
        x = a["model/conv1.weight"][()].view("u4") ^ b["model/conv1.weight"][()].view("u4")
    assert (np.bitwise_count(x) == 1).all()


def test_measure_tensor_weighs_small_and_large_tensors_alike(model: Path) -> None:
    faults = run_json(
        "inject", model, "--dry-run", "--role", "weight", "--measure", "tensor", "--count", 100, "--seed", 1
    )["faults"]
    small = sum(len(fault["bits"]) for fault in faults if fault["tensor"] == "model/conv10.weight")
    assert 30 <= small <= 70  # 4 elements against 300: by bits it would be about 1


def test_fraction_counts_elements(model: Path, tmp_path: Path) -> None:
    result = run_json("inject", model, "-o", tmp_path / "out.h5", "--role", "momentum", "--fraction", 0.25)
    assert len(result["faults"]) == 75
    assert all(len(fault["bits"]) == 1 for fault in result["faults"])


def test_error_rate_is_binomial(model: Path) -> None:
    def flips(seed: int) -> int:
        result = run_json("inject", model, "--dry-run", "--tensor", "model/conv1.weight", "--ber", 0.01, "--seed", seed)
        return sum(len(fault["bits"]) for fault in result["faults"])

    counts = [flips(seed) for seed in range(40)]
    mean, deviation = 300 * 32 * 0.01, (300 * 32 * 0.01 * 0.99) ** 0.5
    assert abs(np.mean(counts) - mean) < 4 * deviation / 40**0.5
    assert 0.6 * deviation < np.std(counts) < 1.5 * deviation
    everything = run_json("inject", model, "--dry-run", "--tensor", "model/conv1.bias", "--ber", 1)
    assert sum(len(fault["bits"]) for fault in everything["faults"]) == 7 * 32


@pytest.mark.parametrize(("kind", "test"), [("zero", lambda x: x == 0), ("nan", np.isnan), ("inf", np.isinf)])
def test_whole_elements_are_set(model: Path, tmp_path: Path, kind: str, test: object) -> None:
    out = tmp_path / "out.h5"
    run("inject", model, "-o", out, "--tensor", "model/*.weight", "--what", kind, "--fraction", 1)
    with h5py.File(out) as file:
        assert test(file["model/conv1.weight"][()]).all()
        assert not test(file["model/conv1.bias"][()]).any()


def test_no_nan_draws_again_and_counts(model: Path, tmp_path: Path) -> None:
    with h5py.File(model, "r+") as file:
        file["model/conv1.weight"][...] = 1.0  # flipping its top exponent bit gives infinity
    result = run_json(
        "inject",
        model,
        "-o",
        tmp_path / "out.h5",
        "--tensor",
        "model/conv1.weight",
        "--bits",
        "exponent",
        "--measure",
        "element",
        "--count",
        200,
        "--no-nan",
        "--seed",
        1,
    )
    assert result["redrawn"] > 5
    assert len(result["faults"]) == 200
    with h5py.File(tmp_path / "out.h5") as file:
        assert np.isfinite(file["model/conv1.weight"][()]).all()
    refused(
        "inject",
        model,
        "-o",
        tmp_path / "no.h5",
        "--tensor",
        "model/conv1.weight",
        "--bits",
        "exponent_msb",
        "--no-nan",
        says="only 0 of the 1",
    )


def test_keep_sign_never_touches_the_sign(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    run("inject", model, "-o", out, "--tensor", "model/conv1.bias", "--keep-sign", "--count", 7 * 31)
    with h5py.File(model) as a, h5py.File(out) as b:
        x = a["model/conv1.bias"][()].view("u4") ^ b["model/conv1.bias"][()].view("u4")
    assert (x == 0x7FFFFFFF).all()


def test_a_glob_does_not_reach_names_that_only_begin_alike(model: Path) -> None:
    faults = run_json("inject", model, "--dry-run", "--tensor", "model/conv1.*", "--ber", 1)["faults"]
    assert {fault["tensor"] for fault in faults} == {"model/conv1.weight", "model/conv1.bias"}


def test_stored_checksums_follow_the_altered_tensor(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    run("inject", model, "-o", out, "--count", 500, "--seed", 2)
    with h5py.File(model) as old, h5py.File(out) as file:
        names = [name.decode() for name in file["checksum/path"][()]]
        for name, stored in zip(names, file["checksum/crc32c"][()], strict=True):
            assert stored == support.crc32c(file[name][()].tobytes()), name
        assert (old["checksum/crc32c"][()] != file["checksum/crc32c"][()]).sum() >= 2


def test_a_user_block_moves_every_offset(tmp_path: Path) -> None:
    path, out = tmp_path / "block.h5", tmp_path / "out.h5"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["w"] = np.ones(4, "<f4")
    run("inject", path, "-o", out, "--bits", 31, "--count", 4)
    with h5py.File(out) as file:
        assert (file["w"][()] == -1).all()


def test_a_copy_never_touches_its_input(model: Path, tmp_path: Path) -> None:
    before, stamp = model.read_bytes(), model.stat()
    for out in (tmp_path / "a.h5", tmp_path / "b.h5"):
        run("inject", model, "-o", out, "--count", 50)
    assert model.read_bytes() == before
    assert model.stat().st_mtime_ns == stamp.st_mtime_ns
    assert names_in(tmp_path) == ["a.h5", "b.h5", "model.h5"]


def test_an_existing_output_is_replaced(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    out.write_text("old")
    run("inject", model, "-o", out)
    assert len(changed_bytes(model.read_bytes(), out.read_bytes())) >= 1


def test_output_that_is_the_input_is_refused(model: Path, tmp_path: Path) -> None:
    before = model.read_bytes()
    (tmp_path / "soft.h5").symlink_to(model)
    (tmp_path / "hard.h5").hardlink_to(model)
    for out in (model, tmp_path / "soft.h5", tmp_path / "hard.h5", tmp_path / "." / "model.h5"):
        refused("inject", model, "-o", out, says="is the input file")
    refused("inject", model, "-o", tmp_path / "out.h5", "--manifest", model, says="would overwrite")
    assert model.read_bytes() == before


def test_dry_run_writes_nothing(model: Path, tmp_path: Path) -> None:
    before, names = model.read_bytes(), names_in(tmp_path)
    done = run("inject", model, "--in-place", "--dry-run", "--count", 3)
    assert "nothing was written" in done.stdout
    population = run_json("inject", model, "--dry-run", "--role", "norm")["population"]
    assert population == [
        {"role": "norm", "tensors": 1, "elements": 7, "bits": {"sign": 7, "exponent": 56, "mantissa": 161}}
    ]
    assert (model.read_bytes(), names_in(tmp_path)) == (before, names)
