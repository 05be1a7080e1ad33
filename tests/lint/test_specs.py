"""The schemas are schemas, and the shipped specs obey them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from house import ROOT, project_files
from referencing import Registry, Resource

CAMPAIGNS = ROOT / "campaigns"
SCHEMAS = sorted((CAMPAIGNS / "schema").glob("*.schema.json"))


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys differ: json.loads alone would keep the last of two."""
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), f"a key stands twice: {sorted(keys)}"
    return dict(pairs)


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=unique)


def schema_registry() -> Registry[Any]:
    """The shipped schemas under their $id and their file name, so that references between them resolve."""
    resources = []
    for path in SCHEMAS:
        resource = Resource.from_contents(load(path))
        resources += [(path.name, resource), (resource.id() or path.name, resource)]
    return Registry().with_resources(resources)


def specs() -> Iterator[tuple[Path, str]]:
    """Each shipped spec and the schema it is for: campaigns/NAME.json by its keys."""
    for path in sorted(CAMPAIGNS.rglob("*.json")):
        if path.parent.name != "schema":
            if path.parent.name == "checkpoint-study":
                yield path, "checkpoint-study"
            else:
                yield path, "campaign" if "arms" in load(path) else "train"


@pytest.mark.parametrize(
    "path", [path for path in project_files() if path.suffix == ".json"], ids=lambda path: path.name
)
def test_is_json(path: Path) -> None:
    load(path)


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_schema_is_draft_7(path: Path) -> None:
    schema = load(path)
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    jsonschema.Draft7Validator.check_schema(schema)


def test_there_are_schemas_and_specs() -> None:
    assert {"campaign.schema.json", "train.schema.json"} <= {path.name for path in SCHEMAS}
    assert CAMPAIGNS / "quickstart.json" in [path for path, _ in specs()]


@pytest.mark.parametrize(("path", "kind"), list(specs()), ids=lambda value: getattr(value, "name", value))
def test_spec_obeys_its_schema(path: Path, kind: str) -> None:
    schema = load(CAMPAIGNS / "schema" / f"{kind}.schema.json")
    validator = jsonschema.Draft7Validator(schema, registry=schema_registry())
    assert [error.message for error in validator.iter_errors(load(path))] == []
    broken = load(path) | {"no_such_key": 1}
    assert list(validator.iter_errors(broken)), "an unknown key must be refused"
