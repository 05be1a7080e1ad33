"""Commands of the Python package that the program `bitrift` does not have."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bitrift import audit_command, command_line


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _write(value: dict[str, Any], output: Path | None) -> None:
    text = json.dumps(value, indent=2) + "\n"
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")


def convert_config(arguments: argparse.Namespace) -> None:
    """Converts a configuration, or the sequence that it replays, to a file for bitrift, and prints the command."""
    try:
        from bitrift import corrupter, corrupter_sequence
    except ImportError as error:
        raise SystemExit(
            f"bitrift: error: convert-config needs the package {error.name}: pip install PyYAML h5py xxhash"
        ) from None
    from bitrift import Error, list_tensors

    try:
        converted = corrupter.convert(arguments.config, arguments.file)
        sequence = arguments.sequence or converted.sequence
        name = str(arguments.output or ("MANIFEST.json" if sequence else "MODEL.json"))
        if sequence is None:
            value, notes, command = converted.model, converted.notes, converted.command(name)
        else:
            roles = {tensor.path: tensor.role for tensor in list_tensors(converted.hdf5_file)}
            value, notes = corrupter_sequence.sequence_to_manifest(
                sequence,
                converted.hdf5_file,
                float_precision=converted.float_precision,
                seed=arguments.seed,
                roles=roles,
            )
            notes = [*converted.notes, *notes]
            command = converted.command("", replay=name)
        _write(value, arguments.output)
    except (corrupter.ConversionError, Error, OSError) as error:
        _say(f"bitrift: error: {error}")
        raise SystemExit(2) from None
    for note in notes:
        _say(f"changed: {note}")
    _say(f"run: {shlex.join(command)}")


def from_pt(arguments: argparse.Namespace) -> None:
    """Converts a file of torch.save() to HDF5."""
    try:
        from bitrift import torch
    except ImportError as error:
        raise SystemExit(f"bitrift: error: from-pt needs the package {error.name}: pip install torch h5py") from None
    try:
        left_out = torch.from_pt(arguments.source, arguments.output)
    except (torch.ConversionError, OSError) as error:
        _say(f"bitrift: error: {error}")
        raise SystemExit(2) from None
    for one in left_out:
        _say(f"left out: {one}")
    _say(f"next: bitrift ls {shlex.quote(str(arguments.output))}")


def report(arguments: argparse.Namespace) -> None:
    """Writes the report of a campaign, or serves it."""
    try:
        from bitrift.report import command
    except ImportError as error:
        _say(f"bitrift: error: {sys.executable} lacks the package {error.name}: pip install jinja2")
        raise SystemExit(2) from None
    command.run(arguments)


def mesh_plot(arguments: argparse.Namespace) -> None:
    """Draws what `bitrift mesh model --json` or `bitrift mesh table --csv` printed."""
    from bitrift import Error, mesh_plots

    source = arguments.source
    try:
        text = sys.stdin.read() if str(source) == "-" else source.read_text(encoding="utf-8")
        try:
            figure = mesh_plots.figure_of(text, title=arguments.title)
        except Error as error:
            raise ValueError(f"{'standard input' if str(source) == '-' else source}: {error}") from None
        figure.savefig(arguments.output)
    except (ImportError, OSError, ValueError) as error:
        _say(f"bitrift: error: {' '.join(str(error).split())}")
        raise SystemExit(2) from None


def main(arguments: Sequence[str] | None = None) -> None:
    """Parses a command line and runs it. Exit code 2: usage or input error."""
    parser = command_line.Parser(prog="python -m bitrift", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    convert = commands.add_parser(
        "convert-config",
        help="convert a configuration of hdf5_corrupter to a fault model",
        description="Convert a YAML configuration of hdf5_corrupter to a fault model (JSON) and print the bitrift "
        "command that runs it. A saved injection sequence is converted to a manifest for --replay. Prints one line on "
        "stderr for each setting whose meaning changes (docs/hdf5_corrupter.md).",
        epilog="Example: python -m bitrift convert-config old.yaml -o model.json. "
        "Exit codes: 0 success, 2 usage or input error.",
    )
    convert.add_argument("config", type=Path, metavar="OLD.yaml")
    convert.add_argument("-o", "--output", type=Path, metavar="OUT.json", help="output file (default: stdout)")
    convert.add_argument("--file", type=Path, metavar="FILE.h5", help="HDF5 file (default: hdf5_file of OLD.yaml)")
    convert.add_argument("--sequence", type=Path, metavar="SEQ.json", help="saved injection sequence to convert")
    convert.add_argument("--seed", type=int, metavar="N", help="random seed for what a saved sequence leaves open")
    convert.set_defaults(run=convert_config)
    pt = commands.add_parser(
        "from-pt",
        help="convert a file of torch.save() to HDF5",
        description="Convert a checkpoint of torch.save() to HDF5, with tensors named by parameter. The file is read "
        "with weights_only=True: no code of it is executed. bitrift.torch.load_into loads the result (docs/python.md).",
        epilog="Example: python -m bitrift from-pt model.pt -o model.h5. "
        "Exit codes: 0 success, 2 usage or input error.",
    )
    pt.add_argument("source", type=Path, metavar="FILE.pt")
    pt.add_argument("-o", "--output", type=Path, metavar="FILE.h5", required=True, help="file to write")
    pt.set_defaults(run=from_pt)
    page = commands.add_parser(
        "report",
        help="write the report of a campaign as one HTML file",
        description="Write the report of a campaign: one HTML file that opens offline, with the verdict in words, the "
        "checks, the rates, maps, comparisons of arms, and the strangest trials (docs/report.md).",
        epilog="Example: python -m bitrift report results/quickstart -o report.html. "
        "Exit codes: 0 success, 1 the page says why no verdict can be given, 2 usage or input error.",
    )
    page.add_argument("folder", metavar="DIR", help="campaign folder")
    page.add_argument("-o", "--output", type=Path, metavar="FILE", help="file to write")
    page.add_argument("--watch", action="store_true", help="serve the page on 127.0.0.1 and renew it as trials end")
    page.add_argument("--port", type=int, metavar="N", help="port of --watch (default: a free one)")
    page.set_defaults(run=report)
    plot = commands.add_parser(
        "mesh-plot",
        help="draw the links of a mesh, or the efficiency of schedules",
        description="Draw what `bitrift mesh model --json` printed (a heat map of the load of links) or what "
        "`bitrift mesh table --csv` printed (the part of the bound by message size). Needs Matplotlib (docs/mesh.md).",
        epilog="Example: bitrift mesh model --mesh 8x8 --dead 3,3,2x2 --schedule trees --json | "
        "python -m bitrift mesh-plot - -o links.png. Exit codes: 0 success, 2 usage or input error.",
    )
    plot.add_argument("source", type=Path, metavar="FILE", help="what was printed; - for standard input")
    plot.add_argument(
        "-o", "--output", type=Path, metavar="PICTURE", required=True, help="file to write: .png, .svg or .pdf"
    )
    plot.add_argument("--title", metavar="TEXT", help="title of the figure")
    plot.set_defaults(run=mesh_plot)
    audit_command.add_to(commands)
    words = sys.argv[1:] if arguments is None else list(arguments)
    words, own = command_line.split(words) if words[:1] == ["audit"] else (words, [])
    parsed = parser.parse_args(words)
    parsed.arguments = own
    parsed.run(parsed)


if __name__ == "__main__":
    main()
