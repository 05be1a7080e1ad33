"""The pages that list the keys of specs name exactly the keys of the schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from house import ROOT

NAME = re.compile(r"`(?P<key>[.a-z_][\w.*\[\]]*)`")
NOT_A_KEY = {"$schema"}


def schema_keys(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """The paths of all keys, such as "base[].name"."""
    for name, value in schema.get("properties", {}).items():
        path = f"{prefix}.{name}".lstrip(".")
        if path not in NOT_A_KEY:
            yield path
        yield from schema_keys(value, path)
        if isinstance(value.get("items"), dict):
            yield from schema_keys(value["items"], path + "[]")


def keys_of(name: str) -> set[str]:
    return set(schema_keys(json.loads((ROOT / "campaigns/schema" / f"{name}.schema.json").read_text("utf-8"))))


def section(page: str, heading: str) -> str:
    """A page's text from a heading to the next one of any level."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    match = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert match, f"{page} has no section {heading!r}"
    return match[1]


def documented(text: str, first: str) -> set[str]:
    """The keys in the first column of the tables whose first heading is `first`. A key that begins with a point shares
    the parent of the key before it in the row.
    """
    found: set[str] = set()
    inside = False
    for line in text.splitlines():
        cell = line.split("|")[1].strip() if line.startswith("|") else None
        if cell is None:
            inside = False
        elif cell == first:
            inside = True
        elif inside:
            parent = ""
            for match in NAME.finditer(cell):
                key = match["key"]
                if key.startswith("."):
                    key = parent + key
                parent = key.rpartition(".")[0]
                found.add(key)
    return found


def below(keys: set[str], parent: str) -> set[str]:
    """The keys directly in an object, without its path."""
    return {key[len(parent) + 1 :] for key in keys if re.fullmatch(re.escape(parent) + r"\.\w+", key)}


def leaves(keys: set[str]) -> set[str]:
    """Those that hold no other keys."""
    return {key for key in keys if not any(other.startswith((key + ".", key + "[]")) for other in keys)}


# Objects that have a table, a list or a page of their own.
ELSEWHERE = ("data.", "guards.", "parallel.mesh.", "resized", "parallel.device")


def test_training_keys() -> None:
    keys = {key for key in leaves(keys_of("train")) if not key.startswith(ELSEWHERE)}
    named = documented(section("spec.md", "Training"), "key")
    assert named - {"data.name", "data.prefetch", "guards.*", "parallel.mesh"} == keys


def test_data_keys() -> None:
    text = section("data.md", "Keys")
    keys = keys_of("train")
    # `name` and `path` have a table of their own.
    own = {key for key in documented(text, "key") if "." not in key}
    assert own | {"name", "path"} == below(keys, "data")
    assert {key for key in documented(text, "key") if "." in key} <= keys


def test_guard_keys() -> None:
    text = section("training.md", "Guards")
    for key in below(keys_of("train"), "guards"):
        assert re.search(rf'[`"]{key}[`":]', text), key


def test_campaign_keys() -> None:
    keys = keys_of("campaign")
    named = documented(section("spec.md", "Campaign"), "key")
    assert {key for key in named if key not in keys} == set()
    objects = {key for key in keys if key not in leaves(keys)}
    # What a list of bases holds is what one base holds; of an arm, `parallel` is that of a training.
    apart = ("arms[].parallel.", "arms[].guards.", "arms[].recovery.", "strata.models[]", "strata.process.",
             "strata.wire.", "strata.link.", "strata.compute.", "sampling.", "propagation.", "scale",
             "base[].")  # fmt: skip
    assert {key for key in keys - named - objects if not key.startswith(apart)} == set()


@pytest.mark.parametrize("kind", ["process", "wire", "link", "compute"])
def test_strata_keys(kind: str) -> None:
    text = (ROOT / "docs/spec.md").read_text(encoding="utf-8")
    kept = {"process": {"points"}, "wire": {"messages"}, "link": {"steps_per_epoch"}, "compute": {"computations"}}[kind]
    for key in kept:
        assert f"`strata.{kind}.{key}`; a spec must not contain this key" in " ".join(text.split())
    assert documented(text, f"key of `strata.{kind}`") | kept == below(keys_of("campaign"), f"strata.{kind}")


def test_recovery_and_sampling_keys() -> None:
    keys = keys_of("campaign")
    assert documented(section("spec.md", "Recoveries"), "key") | {"kind"} == below(keys, "arms[].recovery")
    assert documented(section("spec.md", "Sampling"), "key") == {f"sampling.{key}" for key in below(keys, "sampling")}


def test_fault_model_keys() -> None:
    text = section("spec.md", "Fault models")
    named = {match["key"] for line in text.splitlines() if line.startswith("- ") for match in NAME.finditer(line)}
    assert named - {"any", "value", "tensors"} | {"tensors", "value"} == below(keys_of("campaign"), "strata.models[]")


def test_propagation_keys() -> None:
    text = (ROOT / "docs/propagation.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert documented(text, "key") == below(keys_of("campaign"), "propagation")


def test_study_keys() -> None:
    keys = {key for key in leaves(keys_of("checkpoint-study")) if not key.startswith("cost.cluster.")}
    assert documented(section("checkpoint-cost.md", "The spec"), "key") - {"cost.cluster"} == keys


def test_a_key_that_is_not_there_is_found() -> None:
    table = "| key | meaning |\n|---|---|\n| `model.name`, `.context` | `gpt` |\n| `schedule.*` | all |\n\n| key |\n"
    assert documented(table, "key") == {"model.name", "model.context", "schedule.*"}
    schema: dict[str, Any] = {"properties": {"base": {"items": {"properties": {"name": {}}}}, "seed": {}}}
    assert set(schema_keys(schema)) == {"base", "base[].name", "seed"}
