"""Upsets of memory against a memory in Python: real words, encoded, struck and decoded."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from inject_support import refused, run, run_json
from philox import derive_key, philox_u64

WORDS_OF_ROW, BANKS = 2048, 8


def random_below(key: int, a: int, bound: int) -> int:
    for attempt in range(64):
        drawn = int(philox_u64(key, np.array([a], np.uint64), attempt << 32)[0])
        if drawn >= 2**64 % bound:
            return drawn % bound
    raise AssertionError


def code(number: int) -> list[int]:
    """The columns of the data bits in a check matrix, as docs/faults.md gives them."""
    columns = [byte for byte in range(256) if byte.bit_count() == 3]
    columns += [0x1F, 0x3E, 0x7C, 0xF8, 0xF1, 0xE3, 0xC7, 0x8F]
    order = list(range(64))
    key = derive_key(number, "inject.secded")
    for i in range(63, 0, -1):
        j = random_below(key, i, i + 1)
        order[i], order[j] = order[j], order[i]
    return [columns[i] for i in order]


CODES = [code(number) for number in range(16)]


def check_bits(columns: list[int], word: int) -> int:
    bits = 0
    for bit, column in enumerate(columns):
        bits ^= column if word >> bit & 1 else 0
    return bits


def read_struck(columns: list[int], word: int, chip: int, pattern: int) -> int | None:
    """What a memory with SECDED returns for a word that one chip spoilt; None: it reports an error."""
    check = check_bits(columns, word)
    if chip < 16:
        word ^= pattern << 4 * chip
    else:
        check ^= pattern << 4 * (chip - 16)
    syndrome = check ^ check_bits(columns, word)
    if syndrome in columns:
        return word ^ 1 << columns.index(syndrome)
    return word if syndrome.bit_count() < 2 else None


def words_of(path: Path, dtype: str) -> np.ndarray:
    """The memory image: every dataset in path order, each from a multiple of 512 bytes on."""
    image = bytearray()
    with h5py.File(path) as file:
        names: list[str] = []
        file.visititems(lambda name, found: names.append(name) if isinstance(found, h5py.Dataset) else None)
        for name in sorted(names):
            image += file[name][()].astype(dtype).tobytes()
            image += bytes(-len(image) % 512)
    return np.frombuffer(bytes(image), np.uint64)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Three tensors; the largest has several rows in each bank."""
    draw = np.random.default_rng(3)
    path = tmp_path / "model.h5"
    with h5py.File(path, "w") as file:
        file["a.weight"] = draw.standard_normal((300, 7)).astype(np.float32)
        file["b.bias"] = draw.standard_normal(5).astype(np.float32)
        file["c.weight"] = draw.standard_normal((250, 500)).astype(np.float32)
    return path


@pytest.mark.parametrize("seed", range(12))
def test_what_escapes_secded_is_what_a_memory_would_return(model: Path, tmp_path: Path, seed: int) -> None:
    hurt = tmp_path / "hurt.h5"
    run("inject", model, "-o", hurt, "--what", "upset", "--ecc", "secded", "--seed", seed)
    before, after = words_of(model, "<f4"), words_of(hurt, "<f4")
    wrong = np.flatnonzero(before != after)
    # One word, or the few that a column has here: upsets of more words are all but certain to be reported.
    assert 1 <= len(wrong) <= 4
    assert len({int(word) % (WORDS_OF_ROW * BANKS) for word in wrong}) == 1
    assert any(
        all(
            int(after[word]) in {read_struck(columns, int(before[word]), chip, pattern) for pattern in range(16)}
            for word in wrong
        )
        for columns, chip in itertools.product(CODES, range(18))
    )


def test_shares_equal_those_of_a_memory(model: Path) -> None:
    shares = run_json("inject", model, "--dry-run", "--what", "upset", "--ecc", "secded", "--seed", 1)["upsets"]
    assert shares["days"] == 1000
    by_mode = {row["mode"]: row for row in shares["modes"]}
    assert list(by_mode) == ["bit", "word", "column", "row", "bank", "chip"]
    with h5py.File(model) as file:
        elements = [file[name].size for name in ("a.weight", "b.bias", "c.weight")]
    whole = sum(count // 2 for count in elements)
    word = 0x0123456789ABCDEF
    several = [pattern for pattern in range(16) if pattern.bit_count() > 1]
    rate = 1.4e-9 * 24000 / (BANKS * 16384 * WORDS_OF_ROW)  # of a chip's words, in 1,000 days
    escaped = detected = corrected = 0
    # b.bias ends in half a word: what is wrong in its upper half harms nobody.
    for count, bits in [(whole, 2**64 - 1), (sum(n % 2 for n in elements), 2**32 - 1)]:
        for columns, chip, pattern in itertools.product(CODES, range(18), several):
            returned = read_struck(columns, word, chip, pattern)
            detected += count * (returned is None)
            corrected += count * (returned is not None and (returned ^ word) & bits == 0)
            escaped += count * (returned is not None and (returned ^ word) & bits != 0)
    for name, count in (("corrected", corrected), ("detected", detected), ("escaped", escaped)):
        assert by_mode["word"][name] == pytest.approx(rate * count / len(several) / len(CODES), rel=1e-12)
    assert by_mode["bit"]["escaped"] == by_mode["bit"]["detected"] == 0
    # Every bank holds words of the model, so all failures of a bank strike it.
    assert sum(by_mode["bank"][name] for name in ("corrected", "detected", "escaped")) == pytest.approx(
        0.8e-9 * 24000 * 18
    )
    assert by_mode["chip"]["escaped"] < 1e-100


@pytest.mark.parametrize(("mode", "stride"), [("word", None), ("row", 1), ("column", WORDS_OF_ROW * BANKS)])
def test_without_a_code_one_chip_is_wrong_in_words_of_one_part(
    model: Path, tmp_path: Path, mode: str, stride: int | None
) -> None:
    for seed in range(5):
        hurt = tmp_path / f"{seed}.h5"
        options = ["--what", "upset", "--ecc", "none", "--upset-mode", mode, "--upset-rates", "permanent"]
        run("inject", model, "-o", hurt, *options, "--seed", seed)
        difference = words_of(model, "<f4") ^ words_of(hurt, "<f4")
        wrong = np.flatnonzero(difference)
        together = int(np.bitwise_or.reduce(difference))
        chip = (together.bit_length() - 1) // 4
        assert together & ~(15 << 4 * chip) == 0
        if stride is None:
            assert len(wrong) == 1
            assert together.bit_count() > 1
        elif stride == 1:
            assert len(set(wrong // WORDS_OF_ROW)) == 1
        else:
            assert len({int(word) % stride for word in wrong}) == 1


def test_a_bank_is_every_eighth_row(model: Path, tmp_path: Path) -> None:
    hurt = tmp_path / "hurt.h5"
    run("inject", model, "-o", hurt, "--what", "upset", "--ecc", "none", "--upset-mode", "bank", "--seed", 5)
    wrong = np.flatnonzero(words_of(model, "<f4") != words_of(hurt, "<f4"))
    banks = {int(word) // WORDS_OF_ROW % BANKS for word in wrong}
    assert len(banks) == 1
    struck = [word for word in range(63040) if word // WORDS_OF_ROW % BANKS in banks]
    # 15 of 16 patterns change a word.
    assert len(wrong) == pytest.approx(len(struck) * 15 / 16, rel=0.05)


def test_upsets_are_undone_and_replayed(model: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "faults.json"
    original = model.read_bytes()
    options = ["--what", "upset", "--ecc", "none", "--count", 3, "--seed", 4]
    run("inject", model, "--in-place", *options, "--manifest", manifest)
    hurt = model.read_bytes()
    assert hurt != original
    recorded = json.loads(manifest.read_text())
    assert recorded["model"]["ecc"] == "none"
    assert len(recorded["faults"]) > 1
    run("undo", model)
    assert model.read_bytes() == original
    again = tmp_path / "again.h5"
    run("inject", model, "-o", again, "--replay", manifest)
    run("inject", model, "-o", tmp_path / "third.h5", *options)
    assert (words_of(again, "<f4") == words_of(tmp_path / "third.h5", "<f4")).all()
    assert not (words_of(again, "<f4") == words_of(model, "<f4")).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int8])
def test_upsets_know_words_and_not_formats(tmp_path: Path, dtype: torch.dtype) -> None:
    path, hurt = tmp_path / "model.pt", tmp_path / "hurt.pt"
    torch.manual_seed(0)
    torch.save({"w": (torch.randn(6000) * 50).to(dtype)}, path)
    run("inject", path, "-o", hurt, "--what", "upset", "--ecc", "secded", "--upset-mode", "word", "--seed", 2)
    before, after = (torch.load(one)["w"].view(torch.uint8).numpy().view(np.uint64) for one in (path, hurt))
    wrong = np.flatnonzero(before != after)
    assert len(wrong) == 1
    old, new = int(before[wrong[0]]), int(after[wrong[0]])
    assert new in {read_struck(*one[:1], old, *one[1:]) for one in itertools.product(CODES, range(18), range(16))}


UPSET = ["--what", "upset", "--ecc", "secded"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--what", "upset"], "--what upset needs --ecc"),
        (["--ecc", "none"], "--ecc is valid with --what upset, not with --what flip"),
        (["--upset-mode", "row"], "--upset-mode is valid with --what upset, not with --what flip"),
        (["--what", "upset", "--ecc", "hamming"], "give one of none, secded, chipkill"),
        ([*UPSET, "--upset-mode", "page"], "give one of bit, word, column, row, bank, chip"),
        ([*UPSET, "--upset-mode", "bit"], "corrects or reports every upset of a bit"),
        (["--what", "upset", "--ecc", "chipkill"], "so none escapes, and there is nothing to inject"),
        ([*UPSET, "--bits", "sign"], "leave out --bits"),
        ([*UPSET, "--no-nan"], "leave out --no-nan"),
        ([*UPSET, "--fraction", 0.5], "leave out --fraction"),
        ([*UPSET, "--ber", 0.5], "use it only with --what flip"),
        ([*UPSET, "--measure", "tensor"], "leave out --measure"),
        ([*UPSET, "--plane", "storage"], "leave out --plane storage"),
        ([*UPSET, "--tensor", "b.bias", "--element", 2], "leave out --element"),
        (["--what", "upset", "--ecc", "none", "--count", 10**9], "one injection has at most 20000000"),
    ],
)  # fmt: skip
def test_what_upsets_cannot_do_is_refused(model: Path, options: list, says: str) -> None:
    refused("inject", model, "--dry-run", *options, says=says)


def test_the_table_says_what_becomes_of_upsets(model: Path) -> None:
    shown = run("inject", model, "--dry-run", "--what", "upset", "--ecc", "secded", "--seed", 1).stdout
    assert "upsets of a" in shown
    assert "simulated, with the failure rates of Sridharan and Liberty (SC 2012)" in shown
