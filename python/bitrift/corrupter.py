"""Settings of hdf5_corrupter as fault models of bitrift.

hdf5_corrupter (github.com/diepe28/hdf5_corrupter) is the tool of several published studies. docs/hdf5_corrupter.md has
the table of its settings; its injection sequences are read by corrupter_sequence.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import yaml

from bitrift.errors import BadInput

FLOAT_WIDTHS = {"16": 16, "32": 32, "64": 64}
SEQUENCE_KEYS = ("injection_sequence_path", "load_injection_sequence")
KNOWN = {
    "hdf5_file",
    "log_file_path",
    "injection_probability",
    "injection_type",
    "injection_tries",
    "float_precision",
    "first_bit",
    "last_bit",
    "burst",
    "bit_mask",
    "scaling_factor",
    "allow_sign_change",
    "allow_NaN_values",
    "save_injection_sequence",
    "use_random_locations",
    "locations_to_corrupt",
    *SEQUENCE_KEYS,
}


class ConversionError(BadInput):
    """A configuration or a sequence that has no equal here; one line that says what, where and what to do."""


@dataclass
class Converted:
    """A configuration in terms of bitrift."""

    hdf5_file: Path
    model: dict[str, Any]
    """The fault model, for `bitrift inject --model`."""
    sequence: Path | None = None
    """The saved sequence that the configuration replays; its model then means nothing."""
    float_precision: str = "auto"
    """16, 32, 64 or auto: what bit numbers of a sequence count in."""
    saves: bool = False
    """Whether what was injected is to be kept: `--manifest`."""
    notes: list[str] = field(default_factory=list)
    """One line for each setting whose meaning had to change."""

    def command(self, model: str, replay: str | None = None) -> list[str]:
        """The call of bitrift that does what the configuration asked for, from the file with the model."""
        if replay is not None:
            return ["bitrift", "inject", str(self.hdf5_file), "--in-place", "--replay", replay]
        call = ["bitrift", "inject", str(self.hdf5_file), "--in-place", "--model", model]
        return [*call, "--manifest", f"{self.hdf5_file}.faults.json"] if self.saves else call


@dataclass(frozen=True)
class Dataset:
    """A dataset with a shape, its path without the leading slash."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def values(self) -> int:
        """How many elements it has."""
        return int(np.prod(self.shape, dtype=object))


def datasets_of(file: h5py.File) -> list[Dataset]:
    """All datasets with a shape, by path without the leading slash."""
    found: list[Dataset] = []

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            found.append(Dataset(name, item.shape, item.dtype))

    file.visititems(visit)
    return sorted(found, key=lambda one: one.path)


def _escaped(path: str) -> str:
    if any(character in path for character in "*?"):
        raise ConversionError(f"'{path}': a name with * or ? cannot be written as a pattern; choose a group above it")
    return path


def _number(settings: Mapping[str, Any], key: str) -> float:
    try:
        return float(settings[key])
    except KeyError:
        raise ConversionError(f"{key} is missing") from None
    except (TypeError, ValueError):
        raise ConversionError(f"{key}: {settings[key]!r} is not a number") from None


def _whole(settings: Mapping[str, Any], key: str) -> int:
    value = _number(settings, key)
    if not value.is_integer():
        raise ConversionError(f"{key}: {settings[key]!r} is not a whole number")
    return int(value)


def _flag(settings: Mapping[str, Any], key: str, default: bool) -> bool:
    value = settings.get(key, default)
    if not isinstance(value, bool):
        raise ConversionError(f"{key}: {value!r} is neither True nor False")
    return value


def globs_of(location: str, datasets: Sequence[Dataset], notes: list[str]) -> list[str]:
    """Patterns for a location: a dataset, all in a group or module, or all whose paths begin so."""
    name = location.strip().strip("/")
    paths = [one.path for one in datasets]
    if not name:
        return ["**"]
    starting = [path for path in paths if path.startswith(name)]
    if not starting:
        raise ConversionError(f"no dataset of the file begins with '{location}'")
    marks = "/" if location.endswith("/") else "/."
    inside = {mark: [path for path in starting if path.startswith(name + mark)] for mark in marks}
    globs = [_escaped(name)] if name in paths else []
    globs += [f"{_escaped(name)}{mark}**" for mark, held in inside.items() if held]
    if not globs:
        notes.append(f"location '{location}' names no dataset and no group, only the beginning of names")
        return [f"{_escaped(name)}**"]
    others = sorted(set(starting) - {path for held in inside.values() for path in held} - {name})
    if others:
        notes.append(
            f"location '{location}' means this dataset or group alone; "
            f"hdf5_corrupter would also have hit {others[0]}" + (f" and {len(others) - 1} more" if others[1:] else "")
        )
    return globs


def selected(globs: Iterable[str], datasets: Sequence[Dataset]) -> list[Dataset]:
    """The datasets that some pattern of globs_of() matches; all without any."""
    patterns = [glob.replace("**", "*").replace("[", "[[]") for glob in globs]
    if not patterns:
        return list(datasets)
    return [one for one in datasets if any(fnmatch.fnmatchcase(one.path, pattern) for pattern in patterns)]


def precision_of(settings: Mapping[str, Any]) -> int | None:
    """Width in bits that bit numbers are counted in; None: each dataset's own."""
    given = str(settings.get("float_precision", "auto"))
    if given == "auto":
        return None
    if given not in FLOAT_WIDTHS:
        raise ConversionError(f"float_precision: {given} is none of 16, 32, 64, auto")
    return FLOAT_WIDTHS[given]


def _bits(settings: Mapping[str, Any], targets: Sequence[Dataset], notes: list[str]) -> str:
    """first_bit .. last_bit, counted from the sign bit on, as a bit field counted from the other end."""
    width = precision_of(settings)
    floats = sorted({one.dtype.itemsize * 8 for one in targets if one.dtype.kind == "f"})
    others = [size for size in floats if size != width]
    if "first_bit" not in settings and "last_bit" not in settings:
        if width is not None and others:
            notes.append(
                f"float_precision: {width}, but there are float{others[0]} values; every bit of the stored ones counts"
            )
        return "any"
    if width is None:
        raise ConversionError("first_bit and last_bit number the bits of float_precision: give 16, 32 or 64, not auto")
    first = _whole(settings, "first_bit") if "first_bit" in settings else 0
    last = _whole(settings, "last_bit") if "last_bit" in settings else width - 1
    if not 0 <= first <= last < width:
        raise ConversionError(
            f"first_bit {first} and last_bit {last} are not a range of the {width} bits (0 is the sign)"
        )
    if first == 0 and last == width - 1:
        return "any"
    if others:
        raise ConversionError(
            f"float_precision: bits {first} to {last} of {width} mean nothing in the float{others[0]} values that are "
            f"targeted; give float_precision {others[0]} and the range counted in it"
        )
    low, high = width - 1 - last, width - 1 - first
    if any(one.dtype.kind in "iu" for one in targets):
        notes.append(
            f"first_bit, last_bit: in integers these are bits {low} to {high} as well (those that they have); "
            "hdf5_corrupter flipped any digit of the number in base two"
        )
    if first > 0 and _flag(settings, "allow_sign_change", True):
        return ",".join(str(bit) for bit in [*range(low, high + 1), width - 1])
    return f"{low}-{high}" if high > low else str(low)


def _kind(settings: Mapping[str, Any], targets: Sequence[Dataset], notes: list[str]) -> dict[str, Any]:
    """What happens to a value: the kinds exclude each other."""
    mask, factor = settings.get("bit_mask"), settings.get("scaling_factor")
    burst = _whole(settings, "burst") if "burst" in settings else 1
    if burst < 1:
        raise ConversionError(f"burst: {burst} is not at least 1")
    ranged = "first_bit" in settings or "last_bit" in settings or burst > 1
    if (mask is not None) + (factor is not None) + ranged > 1:
        raise ConversionError("a bit range or burst, bit_mask and scaling_factor exclude each other: keep one")
    if factor is not None:
        return {"what": "scale", "factor": _number(settings, "scaling_factor")}
    if mask is not None:
        text = str(mask)
        if not text or set(text) - {"0", "1"} or "1" not in text:
            raise ConversionError(
                f"bit_mask: '{text}' is not a mask of 0 and 1 with at least one 1 (put it in quotes in YAML)"
            )
        if len(text) > (precision_of(settings) or 64):
            raise ConversionError(f"bit_mask: '{text}' is longer than float_precision")
        return {"what": "xor", "mask": f"0b{text}", "mask_at": "random"}
    bits = _bits(settings, targets, notes)
    if burst == 1:
        return {"what": "flip", "bits": bits}
    notes.append(
        f"burst: {burst} adjacent bits of a value; hdf5_corrupter took {burst} anywhere in the range, adjacent or not"
    )
    return {"what": "burst", "length": burst, "bits": bits}


def _count(settings: Mapping[str, Any], values: int, notes: list[str]) -> int:
    """How many faults, from tries and the probability that each succeeds."""
    kind = settings.get("injection_type")
    tries = _number(settings, "injection_tries")
    if kind == "percentage":
        if not 0 <= tries <= 1:
            raise ConversionError(f"injection_tries: {tries:g} is not a probability from 0 to 1")
        wanted = int(tries * values / 100)
        notes.append(f"injection_tries: {tries:g} percent of the file's {values} values are {wanted} faults")
    elif kind == "count":
        wanted = int(tries)
    else:
        raise ConversionError(f"injection_type: {kind!r} is neither count nor percentage")
    probability = _number(settings, "injection_probability") if "injection_probability" in settings else 1.0
    if not 0 <= probability <= 1:
        raise ConversionError(f"injection_probability: {probability:g} is not from 0 to 1")
    count = round(wanted * probability)
    if probability < 1:
        notes.append(
            f"injection_probability: of {wanted} tries {probability:g} succeeded on average, so {count} faults, "
            "exactly; for a random number of them use a bit error rate (ber)"
        )
    if count < 1:
        raise ConversionError(
            f"injection_tries: {wanted} tries of probability {probability:g} are less than one fault: raise either"
        )
    return count


def convert(config: Path, hdf5_file: Path | None = None) -> Converted:
    """Reads a configuration (YAML) of hdf5_corrupter and the HDF5 file that it names, or `hdf5_file` instead.

    Raises ConversionError, and OSError when a file cannot be read.
    """
    try:
        settings = yaml.safe_load(config.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConversionError(f"{config}: is not YAML ({' '.join(str(error).split())})") from None
    if not isinstance(settings, dict):
        raise ConversionError(f"{config}: holds no settings")
    unknown = sorted(str(key) for key in settings if key not in KNOWN)
    if unknown:
        raise ConversionError(f"{config}: '{unknown[0]}' is not a setting of hdf5_corrupter's last version")
    if hdf5_file is None:
        if "hdf5_file" not in settings:
            raise ConversionError(f"{config}: hdf5_file is missing; name the file with --file")
        hdf5_file = Path(str(settings["hdf5_file"]))
    try:
        return _convert(settings, hdf5_file)
    except ConversionError as error:
        raise ConversionError(f"{config}: {error}") from None


def _convert(settings: Mapping[str, Any], hdf5_file: Path) -> Converted:
    notes: list[str] = []
    with open_file(hdf5_file) as file:
        datasets = datasets_of(file)
    globs: list[str] = []
    if not _flag(settings, "use_random_locations", False):
        locations = settings.get("locations_to_corrupt")
        if not locations or isinstance(locations, str):
            raise ConversionError("locations_to_corrupt: expected a list of names, or use_random_locations: True")
        for location in locations:
            globs += [glob for glob in globs_of(str(location), datasets, notes) if glob not in globs]
    sequence = next((Path(str(settings[key])) for key in SEQUENCE_KEYS if settings.get(key)), None)
    saves = _flag(settings, "save_injection_sequence", False)
    if sequence is not None:
        precision_of(settings)
        precision = str(settings.get("float_precision", "auto"))
        return Converted(hdf5_file, {}, sequence, precision, saves, notes)
    targets = selected(globs, datasets)
    model: dict[str, Any] = {"tensors": globs, **_kind(settings, targets, notes)}
    model["measure"] = "tensor"
    notes.append(
        "use_random_locations, locations_to_corrupt: every dataset is equally likely, however small, as it was "
        "(measure tensor); with measure bit every bit is"
    )
    model["count"] = _count(settings, sum(one.values for one in datasets), notes)
    model["allow_nan"] = _flag(settings, "allow_NaN_values", False)
    if "log_file_path" in settings:
        notes.append("log_file_path: there is no log; --manifest FILE holds every fault, and --json prints them")
    notes.append("seed: hdf5_corrupter took the clock; give --seed, or the one that is drawn is printed and stored")
    return Converted(hdf5_file, model, saves=saves, notes=notes)


def open_file(path: Path) -> h5py.File:
    """Opens an HDF5 file for reading. Raises ConversionError."""
    if not path.is_file():
        raise ConversionError(f"hdf5_file: {path} does not exist; name the file with --file")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise ConversionError(f"hdf5_file: {path} cannot be read ({error})") from None
