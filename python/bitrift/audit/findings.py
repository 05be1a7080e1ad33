"""What an audit found, as text, JSON and JUnit XML."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any
from xml.etree import ElementTree

from bitrift.audit.pieces import Kind, in_short
from bitrift.audit.resume import Audit, Missing, words_of

SCHEMA = "bitrift/audit-resume/1"

_CURES = {
    Kind.PARAMETERS: "save and load the state_dict() of {0}: model= takes several modules as a dict, ema= an average",
    Kind.BUFFERS: "save and load the state_dict() of the module, which holds its buffers, and load it with strict=True",
    Kind.GRADIENTS: "save where no gradient is kept for the next step, or call zero_grad() before the first step",
    Kind.MODE: "call train() where the training of an epoch begins, and eval() where an evaluation begins",
    Kind.OPTIMIZER_STATE: "save and load the optimizer's state_dict(): optimizer= takes several as a list or a dict",
    Kind.HYPERPARAMETERS: "load the optimizer's param_groups, too, into the same groups in the same order",
    Kind.SCHEDULER: "pass scheduler= to bitrift.torch.save() and load_into(), and do not step it in the load",
    Kind.SCALER: "pass scaler= to bitrift.torch.save() and load_into()",
    Kind.GENERATOR: "pass it, or the loader that has it, as sampler= to bitrift.torch.save() and load_into()",
    Kind.DEFAULT_GENERATOR: "pass random=True to bitrift.torch.save() and load_into(), or seed it in each epoch",
    Kind.OBJECT: "save and load its state_dict()",
    Kind.TENSOR: "save and load this tensor: ema= takes a dict of tensors",
    Kind.ARRAY: "save and load this array, such as with numpy.save and numpy.load, and fill it in place",
    Kind.NUMBER: "save this number as progress, as in bitrift.torch.save(..., {0}=...), and set it in the load",
    Kind.EPOCH: "save the number of completed epochs, and return it from load()",
}


def lines_of(audit: Audit) -> list[str]:
    """The findings for a terminal."""
    where = f"{audit.epochs} + {audit.more} epochs"
    if audit.ranks > 1:
        where += f", {audit.ranks} ranks"
    if audit.problem:
        return [f"{audit.script}: cannot be audited: {audit.problem}"]
    if audit.equal:
        how = f"within a relative {audit.tolerance:g}" if audit.tolerance else "bit for bit"
        lines = [f"{audit.script}: a resume equals an uninterrupted training {how} ({where})"]
    else:
        lines = [f"{audit.script}: a resume differs from an uninterrupted training ({where})"]
        if audit.difference is not None:
            lines.append(f"first difference: {words_of(audit.difference)}")
        else:
            lines.append("no difference yet: it follows when the training uses what is missing")
        lines += _missing_lines(audit)
    if audit.tolerance:
        lines.append(f"hidden by --tolerance: relative differences of parameters up to {audit.largest:.2g}")
    if audit.harmless:
        lines.append(f"differs without an effect: {in_short(each.piece for each in audit.harmless)}")
    if audit.restored:
        lines.append(f"restored: {in_short(audit.restored)}")
    return lines


def _missing_lines(audit: Audit) -> list[str]:
    lines = []
    if audit.explained:
        lines.append("missing:")
    elif audit.missing:
        lines.append("these differ after the load, and putting them all back does not make the trainings equal:")
    for each in audit.missing:
        lines.append(f"  {sentence_of(each)}")
        lines.append(f"    {cure_of(each)}")
    if not audit.explained:
        seen = ", ".join(audit.iterators)
        lines.append(
            f"  an iterator keeps a position that no audit can put back: {seen}; make it again in every epoch"
            if seen
            else "  something else differs that has no name in the script, such as a worker process or a C++ object"
        )
    return lines


def sentence_of(missing: Missing) -> str:
    """What differs, and what follows from it."""
    rank = f" on rank {missing.rank}" if missing.rank else ""
    follows = {True: "; without it the training differs", False: "; no effect so far", None: ""}[missing.needed]
    return f"{missing.piece}{rank}: {missing.detail}{follows}"


def cure_of(missing: Missing) -> str:
    """What to change in the script."""
    return _CURES[missing.kind].format(missing.piece.rpartition(".")[2])


def document_of(audit: Audit) -> dict[str, Any]:
    """The findings as JSON."""
    plain = dataclasses.asdict(audit, dict_factory=lambda pairs: {key: _plain(value) for key, value in pairs})
    for each, missing in zip(plain["missing"], audit.missing, strict=True):
        each["cure"] = cure_of(missing)
    return {"schema": SCHEMA} | plain


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


def junit_of(audit: Audit) -> str:
    """JUnit XML with one test case, which fails if the resume differs, and is an error if no answer can be given."""
    return junit_case("audit.resume", audit.script, lines_of(audit), not audit.equal, bool(audit.problem))


def junit_case(kind: str, script: str, lines: list[str], differs: bool, problem: bool) -> str:
    """JUnit XML with one test case. problem: no answer can be given, so it is an error; else `differs` is a failure."""
    failed = differs and not problem
    counts = {"tests": "1", "failures": str(int(failed)), "errors": str(int(problem))}
    suite = ElementTree.Element("testsuite", {"name": f"bitrift {kind.replace('.', ' ')}"} | counts)
    case = ElementTree.SubElement(suite, "testcase", {"classname": kind, "name": script})
    if failed or problem:
        first, *rest = lines
        ElementTree.SubElement(case, "failure" if failed else "error", {"message": first}).text = "\n".join(rest)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
