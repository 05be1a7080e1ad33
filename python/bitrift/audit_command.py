"""`python -m bitrift audit`: its command line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from bitrift.audit_spec import ArmScript, scripts_of_spec
from bitrift.command_line import Parser
from bitrift.errors import BadInput, Error

if TYPE_CHECKING:
    from bitrift.audit import Audit

_Found = TypeVar("_Found")

EXAMPLE = """examples:
  python -m bitrift audit resume train.py
  python -m bitrift audit resume train.py:main --epochs 2 --more 2 --junit resume.xml -- --batch-size 64
  python -m bitrift audit resume --spec campaign.json

The script calls bitrift.runner.serve() (docs/audit.md). What follows -- belongs to the script.
Exit codes: 0 the resume equals the uninterrupted training, 1 it differs, 2 no answer: the script failed or does not
repeat, usage or input error."""


def add_to(commands: argparse._SubParsersAction[Parser]) -> None:
    """Adds `audit` to the commands of `python -m bitrift`."""
    audit = commands.add_parser(
        "audit",
        help="find out whether stopping and resuming your script changes its training",
        description="Audit your own training script.",
    )
    kinds = audit.add_subparsers(dest="audit", required=True, metavar="WHAT")
    resume = kinds.add_parser(
        "resume",
        usage="%(prog)s [options] SCRIPT[:FUNCTION] [-- ARGUMENT ...]\n       %(prog)s [options] --spec FILE",
        help="compare a resumed training with one that never stopped",
        description="Train a script in one go; then save, load in a new process and continue. Compare both bit for "
        "bit, and print the first step, rate, loss or parameter that differs, and which state is missing. Each "
        "piece that differs after the load is put back and left out again, so the answer says which ones matter.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    resume.add_argument(
        "script", nargs="?", metavar="SCRIPT[:FUNCTION]", help="a file that calls bitrift.runner.serve()"
    )
    resume.add_argument(
        "--spec",
        type=Path,
        metavar="FILE",
        help="instead of a script: what the arms of this campaign start, with --seed-epochs as in the campaign",
    )
    resume.add_argument("--arm", metavar="NAME", help="with --spec: only this arm (default: all that differ)")
    resume.add_argument("--epochs", type=int, default=1, metavar="N", help="epochs before the save (default: 1)")
    resume.add_argument("--more", type=int, default=1, metavar="N", help="epochs after the load (default: 1)")
    resume.add_argument("--ranks", type=int, default=1, metavar="N", help="processes to start (default: 1)")
    resume.add_argument(
        "--tolerance",
        type=float,
        default=0.0,
        metavar="T",
        help="relative difference that counts as equal (default: 0)",
    )
    resume.add_argument(
        "--seed-epochs", action="store_true", help="seed before each epoch, as a campaign does; hides random states"
    )
    resume.add_argument("--json", type=Path, metavar="FILE", help="write the findings as JSON")
    resume.add_argument("--junit", type=Path, metavar="FILE", help="write the findings as JUnit XML")
    resume.add_argument("--log", type=Path, metavar="FILE", help="append the output of the script to a file")
    resume.set_defaults(run=run_resume)
    _add_save(kinds)


SAVE_EXAMPLE = """examples:
  python -m bitrift audit save train.py
  python -m bitrift audit save train.py:main --kills 50 --junit save.xml -- --batch-size 64

The script calls bitrift.runner.serve() with save= (docs/audit.md). What follows -- belongs to the script.
Exit codes: 0 a whole checkpoint is always left, and it is the state of one step; 1 not always; 2 no answer: the script
failed, usage or input error."""


def _add_save(kinds: argparse._SubParsersAction[Parser]) -> None:
    save = kinds.add_parser(
        "save",
        usage="%(prog)s [options] SCRIPT[:FUNCTION] [-- ARGUMENT ...]",
        help="find out what a killed save leaves of the checkpoint",
        description="Let the script save over an earlier checkpoint, again and again, and kill each save at another "
        "system call that alters files. Load what is left: it is the earlier checkpoint, the new one, or neither. If "
        "threads or processes write in the background, also hold their writes until the next epoch has changed the "
        "model, and check whether the checkpoint is the state at the save.",
        epilog=SAVE_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    save.add_argument("script", metavar="SCRIPT[:FUNCTION]", help="a file that calls bitrift.runner.serve()")
    save.add_argument(
        "--epochs", type=int, default=1, metavar="N", help="epochs before the earlier checkpoint (default: 1)"
    )
    save.add_argument(
        "--kills", type=int, default=300, metavar="N", help="the most saves that are killed (default: 300)"
    )
    save.add_argument(
        "--name", default="checkpoint", metavar="NAME", help="file name that save() gets (default: checkpoint)"
    )
    save.add_argument("--json", type=Path, metavar="FILE", help="write the findings as JSON")
    save.add_argument("--junit", type=Path, metavar="FILE", help="write the findings as JUnit XML")
    save.add_argument("--log", type=Path, metavar="FILE", help="append the output of the script to a file")
    save.set_defaults(run=run_save)


def _scripts(options: argparse.Namespace) -> list[ArmScript]:
    """What is to be audited. Raises bitrift.Error, with one line on what is wrong with the options."""
    if (options.script is None) == (options.spec is None):
        raise BadInput("give either SCRIPT or --spec FILE")
    if options.epochs < 1 or options.more < 1 or options.ranks < 1:
        raise BadInput("--epochs, --more and --ranks must be at least 1")
    if not 0 <= options.tolerance < 1:
        raise BadInput("--tolerance must be at least 0 and less than 1")
    if options.spec is None:
        if options.arm:
            raise BadInput("--arm names an arm of --spec")
        scripts = [ArmScript((), options.script, tuple(options.arguments), options.ranks)]
    else:
        if options.arguments or options.ranks != 1:
            raise BadInput("with --spec, the arms say which arguments and ranks there are")
        scripts = scripts_of_spec(options.spec, options.arm)
        options.seed_epochs = True
    if len(scripts) > 1 and (options.json or options.junit):
        names = ", ".join(one.arms[0] for one in scripts)
        raise BadInput(f"--json and --junit hold one audit, but these arms differ: {names}; choose one with --arm")
    path = scripts[0].script.partition(":")[0]
    if not Path(path).is_file():
        raise BadInput(f"{path}: no such file")
    return scripts


def run_resume(options: argparse.Namespace) -> None:
    """Runs the audits, prints and writes the findings, and ends with the exit code: that of the worst one."""
    try:
        scripts = _scripts(options)
    except Error as error:
        _fail(str(error))
    try:
        from bitrift.audit import findings
    except ImportError as error:
        _fail(f"{sys.executable} lacks the package {error.name}: pip install torch h5py")
    code = 0
    for one in scripts:
        audit = _audit(one, options)
        if one.arms:
            print(f"arm {', '.join(one.arms)}:")
        print("\n".join(findings.lines_of(audit)), flush=True)
        _write(options, json.dumps(findings.document_of(audit), indent=2) + "\n", findings.junit_of(audit))
        code = max(code, 2 if audit.problem else 0 if audit.equal else 1)
    raise SystemExit(code)


def _say(text: str) -> None:
    print(f"audit: {text}", file=sys.stderr, flush=True)


def _audited(work: Callable[[], _Found]) -> _Found:
    """The work's result. Ends with one line and exit code 2 if the script fails."""
    try:
        return work()
    except (Error, OSError) as error:
        _fail(" ".join(str(error).split()))
    except KeyboardInterrupt:
        print("bitrift: interrupted", file=sys.stderr)
        raise SystemExit(130) from None


def _audit(one: ArmScript, options: argparse.Namespace) -> Audit:
    from bitrift.audit import Trainings, audit_resume

    def work() -> Audit:
        with Trainings(
            one.script, one.arguments, ranks=one.ranks, seed_epochs=options.seed_epochs, log=options.log
        ) as trainings:
            return audit_resume(
                trainings, epochs=options.epochs, more=options.more, tolerance=options.tolerance, say=_say
            )

    return _audited(work)


def _check_save(options: argparse.Namespace) -> None:
    """Raises BadInput, with one line on what is wrong with the options."""
    if options.epochs < 1 or options.kills < 2:
        raise BadInput("--epochs must be at least 1, and --kills at least 2")
    if options.name != Path(options.name).name or options.name in ("", ".", ".."):
        raise BadInput(f"--name {options.name}: give the name of a file, without a folder")
    path = options.script.partition(":")[0]
    if not Path(path).is_file():
        raise BadInput(f"{path}: no such file")


def run_save(options: argparse.Namespace) -> None:
    """Runs the audit, prints and writes the findings, and ends with the exit code."""
    try:
        _check_save(options)
    except Error as error:
        _fail(str(error))
    try:
        from bitrift.audit import SaveAudit, Trainings, audit_save, save
    except ImportError as error:
        _fail(f"{sys.executable} lacks the package {error.name}: pip install torch h5py")

    def work() -> SaveAudit:
        with Trainings(options.script, options.arguments, log=options.log) as trainings:
            return audit_save(trainings, epochs=options.epochs, kills=options.kills, name=options.name, say=_say)

    audit = _audited(work)
    print("\n".join(save.lines_of(audit)), flush=True)
    _write(options, json.dumps(save.document_of(audit), indent=2) + "\n", save.junit_of(audit))
    raise SystemExit(2 if audit.problem else 0 if audit.safe else 1)


def _write(options: argparse.Namespace, document: str, junit: str) -> None:
    """The files that the options ask for. Ends with one line and exit code 2 if one cannot be written."""
    try:
        if options.json:
            options.json.write_text(document, encoding="utf-8")
        if options.junit:
            options.junit.write_text(junit, encoding="utf-8")
    except OSError as error:
        _fail(str(error))


def _fail(message: str) -> NoReturn:
    print(f"bitrift: error: {message}", file=sys.stderr)
    raise SystemExit(2)
