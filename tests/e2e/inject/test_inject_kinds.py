"""Every kind of fault in every number format, against integer arithmetic, exact fractions and PyTorch."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import h5py
import inject_support as support
import numpy as np
import pytest
import torch
from inject_support import refused, run, run_json

FLOATS = {
    "float64": (64, 52, torch.float64),
    "float32": (32, 23, torch.float32),
    "float16": (16, 10, torch.float16),
    "bfloat16": (16, 7, torch.bfloat16),
    "float8_e5m2": (8, 2, torch.float8_e5m2),
    "float8_e4m3fn": (8, 3, torch.float8_e4m3fn),
}
INTEGERS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}
WIDTHS = {**{name: row[0] for name, row in FLOATS.items()}, **INTEGERS}
VIEWED = {"bfloat16": "opaque2", "float8_e5m2": "byte", "float8_e4m3fn": "byte"}
ELEMENTS = 48


def value_of(name: str, pattern: int) -> float:
    """What PyTorch reads a floating pattern as."""
    width, _, dtype = FLOATS[name]
    word = torch.tensor([pattern - (1 << width if pattern >> (width - 1) else 0)]).to(
        {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}[width]
    )
    return float(word.view(dtype).to(torch.float64)[0])


def finite_magnitudes(name: str) -> tuple[int, bool]:
    """The pattern of the largest finite value, and whether there is an infinity."""
    width, mantissa, _ = FLOATS[name]
    if name == "float8_e4m3fn":
        return 0x7E, False
    return ((1 << (width - 1 - mantissa)) - 1 << mantissa) - 1, True


def rounded(name: str, exact: Fraction, negative: bool) -> int:
    """The pattern nearest to an exact number, ties to even, by search over all magnitudes."""
    width = FLOATS[name][0]
    most, infinite = finite_magnitudes(name)
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if Fraction(value_of(name, middle)) <= exact else (low, middle)
    below, above = Fraction(value_of(name, low)), Fraction(value_of(name, high))
    if exact >= above:
        step = above - below
        overflow = exact > above + step / 2 or (exact == above + step / 2 and most % 2 == 1)
        low = most + 1 if overflow else most
    elif exact - below > above - exact or (exact - below == above - exact and low % 2 == 1):
        low = high
    assert infinite or low <= most + 1
    return low | (1 << (width - 1) if negative else 0)


def stored_patterns(path: Path, name: str) -> list[int]:
    """The patterns of a dataset as h5py reads its bytes; bit 0 is the least significant bit of the value."""
    with h5py.File(path) as file:
        dataset = file[name]
        size, kind = dataset.dtype.itemsize, dataset.dtype
        raw = np.zeros(dataset.shape, f"V{size}")
        dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, raw, dataset.id.get_type())
        big = kind.byteorder == ">" or name.endswith("_be")
    data = raw.tobytes()
    return [int.from_bytes(data[i : i + size], "big" if big else "little") for i in range(0, len(data), size)]


def dataset_of(name: str) -> str:
    return f"{name}_be" if name in ("float64", "int32", "uint16") else f"{name}_le"


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random patterns of every format, with zero, NaN and infinity among the floating ones."""
    path = tmp_path_factory.mktemp("kinds") / "numbers.h5"
    generator = np.random.default_rng(7)
    with h5py.File(path, "w") as file:
        for name, width in WIDTHS.items():
            dtype = np.dtype(f"u{width // 8}")
            words = generator.integers(0, np.iinfo(dtype).max, ELEMENTS, dtype=dtype, endpoint=True)
            if name in FLOATS:
                most, _ = finite_magnitudes(name)
                words[:5] = [0, 1 << (width - 1), most, most + 1, (1 << (width - 1)) - 1]
                words[5:9] = [1, 2, 3, most - 1]
            order = ">" if dataset_of(name).endswith("be") else "<"
            raw = words.astype(dtype.newbyteorder(order))
            if VIEWED.get(name) == "opaque2":
                file[dataset_of(name)] = raw.view("V2")
            elif VIEWED.get(name) == "byte":
                file[dataset_of(name)] = raw
            else:
                kind = name.replace("uint", "u").replace("int", "i").replace("float", "f")
                file[dataset_of(name)] = raw.view(f"{order}{kind[0]}{width // 8}")
    return path


def inject(numbers: Path, out: Path, name: str, *arguments: object) -> dict:
    """Runs on one dataset; nothing else may differ, and each fault must say what h5py reads before and after."""
    target = dataset_of(name)
    words = ["inject", numbers, "-o", out, "--tensor", target, "--seed", 11, *arguments]
    if name in VIEWED:
        words += ["--as", f"{target}={name}"]
    result = run_json(*words)
    for other in WIDTHS:
        before, after = stored_patterns(numbers, dataset_of(other)), stored_patterns(out, dataset_of(other))
        if other != name:
            assert before == after
            continue
        faults = {fault["element"]: fault for fault in result["faults"]}
        for element, (old, new) in enumerate(zip(before, after, strict=True)):
            fault = faults.pop(element, None)
            assert fault is not None or old == new
            if fault is not None:
                assert (int(fault["old"], 16), int(fault["new"], 16), fault["dtype"]) == (old, new, name)
                assert (old ^ new) & ~sum(1 << bit for bit in fault["bits"]) == 0
        assert not faults
    unchanged = sum(fault["old"] == fault["new"] for fault in result["faults"])
    assert result["no_change"] == unchanged
    return result


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_a_burst_flips_adjacent_bits_that_fit(numbers: Path, tmp_path: Path, name: str, length: int) -> None:
    width = WIDTHS[name]
    result = inject(numbers, tmp_path / "o.h5", name, "--what", "burst", "--length", length, "--measure", "element",
                    "--count", ELEMENTS)  # fmt: skip
    assert result["eligible_bits"] == ELEMENTS * (width - length + 1)
    lowest = set()
    for fault in result["faults"]:
        bits = fault["bits"]
        assert bits == list(range(bits[0], bits[0] + length))
        assert int(fault["old"], 16) ^ int(fault["new"], 16) == sum(1 << bit for bit in bits)
        lowest.add(bits[0])
    assert len(lowest) > min(4, width - length)


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("mask", ["101", "0b1100", "0x5"])
def test_a_mask_is_xored_where_it_stands(numbers: Path, tmp_path: Path, name: str, mask: str) -> None:
    number = int(mask, 16) if mask.startswith("0x") else int(mask.removeprefix("0b"), 2)
    arguments = ["--what", "xor", "--mask", mask, "--fraction", 1]
    result = inject(numbers, tmp_path / "a.h5", name, *arguments)
    assert result["eligible_bits"] == len(result["faults"]) == ELEMENTS
    assert {int(fault["old"], 16) ^ int(fault["new"], 16) for fault in result["faults"]} == {number}
    result = inject(numbers, tmp_path / "r.h5", name, *arguments, "--mask-at", "random")
    assert result["eligible_bits"] == ELEMENTS * (WIDTHS[name] - number.bit_length() + 1)
    changes = {int(fault["old"], 16) ^ int(fault["new"], 16) for fault in result["faults"]}
    assert changes <= {number << place for place in range(WIDTHS[name] - number.bit_length() + 1)}
    assert len(changes) > 3


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("level", [0, 1])
def test_stuck_bits_have_their_level_and_may_have_had_it(numbers: Path, tmp_path: Path, name: str, level: int) -> None:
    count = ELEMENTS * WIDTHS[name] // 3
    result = inject(numbers, tmp_path / "o.h5", name, "--what", f"stuck-at-{level}", "--count", count)
    assert sum(len(fault["bits"]) for fault in result["faults"]) == count
    for fault in result["faults"]:
        mask = sum(1 << bit for bit in fault["bits"])
        old, new = int(fault["old"], 16), int(fault["new"], 16)
        assert new == (old | mask if level else old & ~mask)
    everything = inject(numbers, tmp_path / "e.h5", name, "--what", f"stuck-at-{level}", "--ber", 1)
    assert {int(fault["new"], 16) for fault in everything["faults"]} == {(1 << WIDTHS[name]) - 1 if level else 0}


@pytest.mark.parametrize("name", WIDTHS)
def test_a_random_value_draws_the_targeted_bits_anew(numbers: Path, tmp_path: Path, name: str) -> None:
    width = WIDTHS[name]
    result = inject(numbers, tmp_path / "o.h5", name, "--what", "random", "--fraction", 1)
    flipped = [int(fault["old"], 16) ^ int(fault["new"], 16) for fault in result["faults"]]
    for bit in range(width):
        assert 8 <= sum(word >> bit & 1 for word in flipped) <= 40  # of 48; outside once in a million
    result = inject(numbers, tmp_path / "f.h5", name, "--what", "random", "--bits", "1,3", "--fraction", 1)
    assert {tuple(fault["bits"]) for fault in result["faults"]} == {(1, 3)}
    drawn = [int(fault["new"], 16) >> 1 & 5 for fault in result["faults"]]
    assert set(drawn) == {0, 1, 4, 5}
    assert result["no_change"] > 0


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("value", ["0.1", "-2.5", "1e-3", "300", "1e5", "3.4028236e38", "1e-320"])
def test_a_number_is_set_as_pytorch_rounds_it(numbers: Path, tmp_path: Path, name: str, value: str) -> None:
    result = inject(numbers, tmp_path / "o.h5", name, "--what", "set", "--value", value, "--fraction", 1)
    (new,) = {int(fault["new"], 16) for fault in result["faults"]}
    assert new == rounded(name, Fraction(abs(float(value))), value.startswith("-"))
    if not name.startswith("float8"):  # PyTorch goes to eight bits through float32 and rounds twice
        assert value_of(name, new) == float(torch.tensor([float(value)], dtype=torch.float64).to(FLOATS[name][2])[0])


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("factor", ["0.1", "-3", "1.0000001", "1e6", "1e-6", "0"])
def test_a_scaled_number_is_the_exact_product_rounded_once(
    numbers: Path, tmp_path: Path, name: str, factor: str
) -> None:
    result = inject(numbers, tmp_path / "o.h5", name, "--what", "scale", f"--factor={factor}", "--fraction", 1)
    assert len(result["faults"]) == ELEMENTS
    for fault in result["faults"]:
        old, new = value_of(name, int(fault["old"], 16)), int(fault["new"], 16)
        if math.isnan(old):
            assert fault["new"] == fault["old"]
        elif math.isinf(old):
            assert math.isnan(value_of(name, new)) if factor == "0" else math.isinf(value_of(name, new))
        else:
            exact = Fraction(old) * Fraction(float(factor))
            negative = math.copysign(1, old) * math.copysign(1, float(factor)) < 0
            assert new == rounded(name, abs(exact), negative), (old, factor)


@pytest.mark.parametrize("name", WIDTHS)
def test_constants_are_those_of_the_format(numbers: Path, tmp_path: Path, name: str) -> None:
    width = WIDTHS[name]
    signed = not name.startswith("uint")
    most = finite_magnitudes(name)[0] if name in FLOATS else (1 << (width - signed)) - 1
    for kind, expected in (("max", most), ("zero", 0), ("nullify", 0)):
        result = inject(numbers, tmp_path / f"{kind}.h5", name, "--what", kind, "--fraction", 1)
        assert {int(fault["new"], 16) for fault in result["faults"]} == {expected}
        assert result["model"]["what"] == ("zero" if kind == "nullify" else kind)
    if name not in FLOATS:
        return
    result = inject(numbers, tmp_path / "nan.h5", name, "--what", "nan", "--fraction", 1)
    assert all(math.isnan(value_of(name, int(fault["new"], 16))) for fault in result["faults"])
    if finite_magnitudes(name)[1]:
        result = inject(numbers, tmp_path / "inf.h5", name, "--what", "inf", "--fraction", 1)
        assert {value_of(name, int(fault["new"], 16)) for fault in result["faults"]} == {math.inf}
    else:
        refused("inject", numbers, "--dry-run", "--tensor", dataset_of(name), "--as", f"{dataset_of(name)}={name}",
                "--what", "inf", says="none of the 1 chosen tensors")  # fmt: skip


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_exact_or_refused(numbers: Path, tmp_path: Path, name: str) -> None:
    width, signed = INTEGERS[name], not name.startswith("u")
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    for value in (low, high, 7):
        result = inject(numbers, tmp_path / "o.h5", name, "--what", "set", f"--value={value}", "--count", 3)
        assert {int(fault["new"], 16) for fault in result["faults"]} == {value % (1 << width)}
        assert {fault["new_value"] for fault in result["faults"]} == {str(value)}
    call = ["inject", numbers, "-o", tmp_path / "no.h5", "--tensor", dataset_of(name)]
    for value in (low - 1, high + 1, "1.5", "nan"):
        refused(
            *call,
            "--what",
            "set",
            f"--value={value}",
            says=f"{dataset_of(name)}: --value {value} cannot be stored as {name}",
        )
    assert (
        inject(numbers, tmp_path / "o.h5", name, "--what", "scale", "--factor", 1, "--fraction", 1)["no_change"] == 48
    )
    refused(*call, "--what", "scale", "--factor", 1e30, "--fraction", 1, says=f"cannot be stored as {name}")
    assert not (tmp_path / "no.h5").exists()
    small = tmp_path / "small.h5"
    run("inject", numbers, "-o", small, "--tensor", dataset_of(name), "--what", "set", "--value", 21, "--fraction", 1)
    result = run_json("inject", small, "--dry-run", "--tensor", dataset_of(name), "--what", "scale", "--factor", 3)
    assert result["faults"][0]["new_value"] == "63"
    refused("inject", small, "--dry-run", "--tensor", dataset_of(name), "--what", "scale", "--factor", 0.5,
            says=f"cannot be stored as {name}")  # fmt: skip


KINDS = [
    ["--what", "flip"],
    ["--what", "burst", "--length", 3],
    ["--what", "xor", "--mask", "101"],
    ["--what", "xor", "--mask", "11", "--mask-at", "random"],
    ["--what", "stuck-at-1"],
    ["--what", "stuck-at-0"],
    ["--what", "zero"],
    ["--what", "max"],
    ["--what", "set", "--value=-1"],
    ["--what", "scale", "--factor=-2"],
    ["--what", "random"],
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind[1:])))
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_policies_hold_for_every_kind(numbers: Path, tmp_path: Path, name: str, kind: list) -> None:
    top = 1 << (WIDTHS[name] - 1)
    result = inject(numbers, tmp_path / "o.h5", name, *kind, "--count", 12, "--keep-sign", "--no-nan")
    for fault in result["faults"]:
        assert (int(fault["old"], 16) ^ int(fault["new"], 16)) & top == 0
        assert math.isfinite(value_of(name, int(fault["new"], 16)))
        assert WIDTHS[name] - 1 not in fault["bits"]


def brute_force(name: str, patterns: list[int], kind: list, keep_sign: bool) -> int:
    """How many faults of a kind have a finite result."""
    width = WIDTHS[name]
    masks = [1 << place for place in range(width)]
    if kind[1] == "burst":
        masks = [0b111 << place for place in range(width - 2)]
    elif kind[1] == "xor":
        masks = [0b101] if kind[3] == "101" else [0b11 << place for place in range(width - 1)]
    if keep_sign:
        masks = [mask for mask in masks if mask >> (width - 1) == 0]
    operation = {"stuck-at-0": lambda old, mask: old & ~mask, "stuck-at-1": lambda old, mask: old | mask}.get(
        kind[1], lambda old, mask: old ^ mask
    )
    return sum(math.isfinite(value_of(name, operation(old, mask))) for old in patterns for mask in masks)


@pytest.mark.parametrize("keep_sign", [False, True])
@pytest.mark.parametrize("kind", KINDS[:6], ids=lambda kind: "-".join(map(str, kind[1:])))
@pytest.mark.parametrize("name", ["float32", "float8_e5m2", "float8_e4m3fn", "bfloat16"])
def test_the_population_is_the_accepted_bits(
    numbers: Path, tmp_path: Path, name: str, kind: list, keep_sign: bool
) -> None:
    policies = ["--no-nan", *(["--keep-sign"] if keep_sign else [])]
    result = inject(numbers, tmp_path / "o.h5", name, *kind, *policies)
    patterns = stored_patterns(numbers, dataset_of(name))
    assert result["eligible_bits"] == brute_force(name, patterns, kind, keep_sign)
    assert sum(row["bits"] for row in result["strata"]) == result["eligible_bits"]


def test_scaled_and_random_numbers_are_counted_by_what_they_can_become(numbers: Path, tmp_path: Path) -> None:
    values = [value_of("float16", pattern) for pattern in stored_patterns(numbers, "float16_le")]
    result = inject(numbers, tmp_path / "s.h5", "float16", "--what", "scale", "--factor", 1000, "--no-nan")
    assert result["eligible_elements"] == sum(abs(value) * 1000 < 65520 for value in values if math.isfinite(value))
    result = inject(numbers, tmp_path / "r.h5", "float16", "--what", "random", "--bits", "mantissa", "--no-nan")
    assert result["eligible_elements"] == sum(map(math.isfinite, values))
    result = inject(numbers, tmp_path / "e.h5", "float16", "--what", "random", "--bits", 14, "--no-nan")
    assert result["eligible_elements"] == ELEMENTS
    refused("inject", numbers, "--dry-run", "--tensor", "float16_le", "--what", "set", "--value", 1e6, "--no-nan",
            says="only 0 of the 1")  # fmt: skip


WRONG = [
    (["--what", "burst"], "--what burst needs --length"),
    (["--length", 3], "--length is valid with --what burst, not with --what flip"),
    (["--what", "burst", "--length", 0], "1 to 64"),
    (["--what", "burst", "--length", 65], "1 to 64"),
    (["--what", "burst", "--length", 33, "--tensor", "float32_le"], "33 adjacent bits of 'any'"),
    (
        ["--what", "burst", "--length", 9, "--bits", "exponent", "--tensor", "float32_le"],
        "9 adjacent bits of 'exponent'",
    ),
    (["--what", "xor"], "--what xor needs --mask"),
    (["--what", "xor", "--mask", "12"], "'12' is not a mask"),
    (["--what", "xor", "--mask", "0"], "is not a mask"),
    (["--what", "xor", "--mask", "0x"], "is not a mask"),
    (["--what", "xor", "--mask", "0x10000000000000000"], "is not a mask"),
    (["--what", "xor", "--mask", "1", "--mask-at", "top"], "aligned (to bit 0) or random"),
    (["--what", "xor", "--mask", "1" * 33, "--tensor", "float32_le"], "all bits of the mask"),
    (["--what", "scale"], "--what scale needs --factor"),
    (["--what", "scale", "--factor", "inf"], "not a finite number"),
    (["--what", "set"], "--what set needs --value"),
    (["--what", "set", "--value", "one"], "'one' is not a number"),
    (["--what", "set", "--value", "nan", "--no-nan"], "--no-nan contradicts --value nan"),
    (["--what", "set", "--value", "3", "--bits", "sign"], "sets whole elements"),
    (["--what", "stuck"], "is not supported: give one of flip, burst"),
    (["--what", "burst", "--length", 2, "--ber", 0.1], "--ber hits each bit"),
]


@pytest.mark.parametrize(("words", "says"), WRONG, ids=range(len(WRONG)))
def test_parameters_are_checked(numbers: Path, words: list, says: str) -> None:
    where = [] if "--tensor" in words else ["--tensor", "float32_le"]
    refused("inject", numbers, "--dry-run", *where, *words, says=says)


def test_bursts_of_one_element_never_overlap(tmp_path: Path) -> None:
    path = tmp_path / "one.h5"
    with h5py.File(path, "w") as file:
        file["w"] = np.zeros(1, "<u8")
    for seed in range(30):
        call = ["inject", path, "--dry-run", "--what", "burst", "--length", 4, "--seed", seed]
        (fault,) = run_json(*call, "--count", 6)["faults"]
        assert len(fault["bits"]) == 24
        assert bin(int(fault["new"], 16)).count("1") == 24
    refused("inject", path, "--dry-run", "--what", "burst", "--length", 4, "--count", 17, says="overlap")
    support.refused("inject", path, "--dry-run", "--what", "burst", "--length", 4, "--count", 62, says="61 places")
