"""Campaigns that grow: more draws, strata and arms in a folder that has rows (docs/campaign.md, "Extending")."""

from __future__ import annotations

import json
import random
import shutil

import pytest
from campaign_support import STUDY_SPEC, Study, campaign, journal_lines, read_rows, reference_study

# Two of four strata, one of two arms, and a third of the draws of STUDY_SPEC.
SMALL = STUDY_SPEC | {
    "arms": STUDY_SPEC["arms"][:1],
    "strata": {"roles": ["weight"], "fields": ["sign", "exponent"]},
    "trials_per_stratum": 2,
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """What all of STUDY_SPEC gives when it runs at once."""
    return reference_study(tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    study = Study(tmp_path_factory.mktemp("small"))
    study.spec.write_text(json.dumps(SMALL))
    assert study.run("small").returncode == 0
    return study


@pytest.fixture
def study(tmp_path, small):
    study = Study(tmp_path)
    shutil.copytree(small.place / "small", tmp_path / "grown")
    return study


def identity(folder):
    return json.loads((folder / "campaign.json").read_text())


def rounds_of(folder):
    return [json.loads(path.read_text()) for path in sorted((folder / "rounds").iterdir())]


def test_more_draws_strata_and_arms_give_the_rows_of_the_larger_campaign(reference, small, study):
    grown = study.place / "grown"
    before = read_rows(grown)
    rounds = rounds_of(grown)
    refused = study.run("grown")
    assert refused.returncode == 2 and "or --extend to add to this campaign" in refused.stderr
    assert identity(grown) == identity(small.place / "small")

    done = study.run("grown", "--extend")
    assert done.returncode == 0, done.stderr
    assert read_rows(grown, check_crc=True) == reference.rows
    assert all(reference.rows[key] == row for key, row in before.items())
    assert campaign("diff", grown, reference.place / "plain").returncode == 0
    assert rounds_of(grown)[: len(rounds)] == rounds
    assert rounds_of(grown)[len(rounds)]["joining"] == ["data-2"]

    stored = identity(grown)
    (extension,) = stored["extensions"]
    assert extension["before"] == identity(small.place / "small")["spec"]
    assert "--extend" in extension["provenance"]["command"] and extension["provenance"]["time"]
    assert stored["spec"] == identity(reference.place / "plain")["spec"]

    # It goes on like any other: started again, shown, replayed.
    for arguments in ([], ["--extend"]):
        again = study.run("grown", *arguments)
        assert again.returncode == 0, again.stderr
    assert len(identity(grown)["extensions"]) == 1
    assert json.loads(campaign("status", grown, "--json").stdout)["complete"]
    replayed = campaign("replay", grown, "data-2/momentum.exponent/5", env=study.env)
    assert replayed.returncode == 0 and "same as the journal's row" in replayed.stdout
    listed = json.loads(campaign("list", grown, "--json").stdout)["runs"]
    assert {run["id"] for run in listed} == set(reference.rows)
    summary = json.loads((grown / "summary.json").read_text())
    assert summary["trials"] == summary["planned"] == 2 * 4 * 6


def test_extensions_may_follow_each_other(reference, study):
    spec = dict(SMALL)
    for key in ("trials_per_stratum", "strata", "arms"):
        spec[key] = STUDY_SPEC[key]
        step = study.place / "step.json"
        step.write_text(json.dumps(spec))
        done = study.run("grown", "--extend", spec=step)
        assert done.returncode == 0, done.stderr
    assert read_rows(study.place / "grown") == reference.rows
    assert len(identity(study.place / "grown")["extensions"]) == 3
    # The rounds so far are those that each spec planned.
    draws = [[cell["draws"] for cell in one["strata"]] for one in rounds_of(study.place / "grown")]
    assert draws == [[2, 2], [0, 0], [4, 4], [0, 0], [0, 0, 6, 6], [0] * 4, [0] * 4, [0] * 4]


def test_an_unfinished_campaign_can_be_extended(reference, study):
    grown = study.place / "grown"
    lines = (grown / "trials.jsonl").read_bytes().splitlines(keepends=True)
    (grown / "trials.jsonl").write_bytes(b"".join(lines[:-2]))
    (grown / "rounds" / "0001.json").unlink()
    assert study.run("grown", "--extend").returncode == 0
    assert read_rows(grown) == reference.rows


def test_kills_during_an_extension_lose_nothing(reference, study):
    chance = random.Random(5)
    grown = study.place / "grown"
    kills = 0
    for _ in range(8):
        driver = study.start("grown", "--extend", "--workers", "2", env={"FAKE_TRAIN_SECONDS": "0.01"})
        kills += driver.kill_at_random(chance, 1.0, lambda: journal_lines(grown), 20)
        assert len(identity(grown).get("extensions", [])) <= 1
    assert kills > 2
    assert study.run("grown", "--extend").returncode == 0
    assert read_rows(grown) == reference.rows


def test_a_shared_folder_is_extended_by_any_of_its_shards(reference, tmp_path):
    study = Study(tmp_path)
    first = study.place / "small.json"
    first.write_text(json.dumps(SMALL))
    for spec, arguments in ((first, []), (study.spec, ["--extend"])):
        drivers = [study.start("shared", *arguments, "--shard", f"{i}/2", spec=spec) for i in (1, 2)]
        for driver in drivers:
            done = driver.finish()
            assert done.returncode == 0, done.stderr
    shared = study.place / "shared"
    assert campaign("merge", shared).returncode == 0
    assert read_rows(shared) == reference.rows
    assert len(identity(shared)["extensions"]) == 1
    assert json.loads(campaign("status", shared, "--json").stdout)["complete"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 12}, "seed was 11, is now 12"),
        ({"resume": {"epochs": 3}}, "resume.epochs was 2, is now 3"),
        ({"trials_per_stratum": 1}, "trials_per_stratum was 2, is now 1"),
        ({"controls": STUDY_SPEC["controls"] | {"jitter": 5}}, "controls.jitter was 4, is now 5"),
        ({"worker": {"deadline_s": 9}}, "worker.deadline_s was absent, is now 9"),
        ({"arms": STUDY_SPEC["arms"][::-1]}, "arms[0].name"),
        ({"strata": {"roles": ["momentum"], "fields": ["sign", "exponent"]}}, "strata.roles[0]"),
    ],
)
def test_everything_else_is_refused_with_the_key_and_both_values(study, changes, words):
    spec = study.place / "other.json"
    spec.write_text(json.dumps(SMALL | changes))
    before = identity(study.place / "grown")
    done = study.run("grown", "--extend", spec=spec)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert words in done.stderr and "only draws, strata and arms can be added" in done.stderr
    assert identity(study.place / "grown") == before
    assert words in study.run("grown", spec=spec).stderr


def test_an_extension_that_no_base_holds_is_refused_before_it_is_stored(study):
    before = identity(study.place / "grown")
    spec = study.changed_spec(trials_per_stratum=10**6)
    done = study.run("grown", "--extend", spec=spec)
    assert done.returncode == 2 and "trials_per_stratum needs 1000000 draws" in done.stderr
    assert identity(study.place / "grown") == before


def test_extend_needs_a_campaign(tmp_path):
    done = Study(tmp_path).run("nothing", "--extend")
    assert done.returncode == 2 and "there is no campaign to extend" in done.stderr
    assert not (tmp_path / "nothing").exists()


def test_a_folder_without_rows_takes_a_corrected_spec(reference, tmp_path):
    study = Study(tmp_path)
    wrong = study.changed_spec(
        strata={"roles": ["exp_avg"], "fields": ["sign"]}, base={"train": STUDY_SPEC["base"]["train"] | {"seed": 4}}
    )
    failed = study.run("corrected", spec=wrong)
    assert failed.returncode == 2 and (tmp_path / "corrected" / "base.h5").exists()
    done = study.run("corrected")
    assert done.returncode == 0, done.stderr
    assert "holds no row yet, so its spec is replaced: base.train.seed was 4, is now 3" in done.stderr
    assert read_rows(tmp_path / "corrected") == reference.rows
    assert "extensions" not in identity(tmp_path / "corrected")


SAMPLED = {k: v for k, v in SMALL.items() if k != "trials_per_stratum"} | {
    "sampling": {"half_width": 0.3, "pilot": 4, "outcomes": ["masked", "crash"]}
}


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    study = Study(tmp_path_factory.mktemp("sampled"))
    study.spec.write_text(json.dumps(SAMPLED))
    assert study.run("sampled").returncode == 0
    return study


def grown_spec(place, **changes):
    spec = place / "grown.json"
    spec.write_text(json.dumps(SAMPLED | {"sampling": SAMPLED["sampling"] | {"half_width": 0.2}} | changes))
    return spec


def test_sampling_goes_on_to_a_smaller_half_width_with_another_arm(sampled, tmp_path):
    study = Study(tmp_path)
    spec = grown_spec(tmp_path, arms=STUDY_SPEC["arms"])
    runs = {}
    for name in ("whole", "killed"):
        folder = shutil.copytree(sampled.place / "sampled", tmp_path / name)
        if name == "killed":
            chance = random.Random(7)
            for _ in range(4):
                driver = study.start(name, "--extend", spec=spec, env={"FAKE_TRAIN_SECONDS": "0.01"})
                driver.kill_at_random(chance, 1.0, lambda folder=folder: journal_lines(folder), 30)
        done = study.run(name, "--extend", spec=spec)
        assert done.returncode == 0, done.stderr
        runs[name] = (rounds_of(folder), read_rows(folder))
    assert runs["whole"] == runs["killed"]
    rounds, rows = runs["whole"]
    before = rounds_of(sampled.place / "sampled")
    assert rounds[: len(before)] == before
    assert [one["round"] for one in rounds if "stop" in one] == [len(before) - 1, len(rounds) - 1]
    assert rounds[len(before)]["joining"] == ["data-2"]
    assert max(one["half_width"] for one in rounds[-1]["reached"]) <= 0.2
    trials = [row["id"] for row in rows.values() if row["kind"] == "trial"]
    by_arm = {arm: sorted((i["stratum"], i["draw"]) for i in trials if i["arm"] == arm) for arm in ("serial", "data-2")}
    assert by_arm["serial"] == by_arm["data-2"]
    assert {k: v for k, v in rows.items() if k in read_rows(sampled.place / "sampled")} == read_rows(
        sampled.place / "sampled"
    )
    status = json.loads(campaign("status", tmp_path / "whole", "--json").stdout)
    assert status["complete"] and status["sampling"]["asked"]["half_width"] == 0.2


def test_strata_join_only_where_no_total_was_planned(sampled, tmp_path):
    study = Study(tmp_path)
    folder = shutil.copytree(sampled.place / "sampled", tmp_path / "totals")
    done = study.run("totals", "--extend", spec=grown_spec(tmp_path, strata=STUDY_SPEC["strata"]))
    assert done.returncode == 2 and "strata cannot be added with sampling.target totals" in done.stderr
    assert identity(folder) == identity(sampled.place / "sampled")

    sampling = SAMPLED["sampling"] | {"target": "strata"}
    first = tmp_path / "first.json"
    first.write_text(json.dumps(SAMPLED | {"sampling": sampling}))
    assert study.run("strata", spec=first).returncode == 0
    spec = grown_spec(tmp_path, strata=STUDY_SPEC["strata"], sampling=sampling)
    done = study.run("strata", "--extend", spec=spec)
    assert done.returncode == 0, done.stderr
    rounds = rounds_of(tmp_path / "strata")
    opening = next(i for i, one in enumerate(rounds) if "stop" in one) + 1
    assert [cell["draws"] for cell in rounds[opening]["strata"]] == [0, 0, 4, 4]
    assert max(one["half_width"] for one in rounds[-1]["reached"]) <= 0.3
    summary = json.loads((tmp_path / "strata" / "summary.json").read_text())
    assert {group["unseen"] == [] for group in summary["groups"]} == {True}
