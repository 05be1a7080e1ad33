"""Your own PyTorch script as the trainer of a campaign: it starts once and answers run after run.

    bitrift.runner.serve(model=model, optimizer=optimizer, train_epoch=train_epoch, evaluate=evaluate)

Outside of a campaign this call returns at once, and the script trains as before. In a campaign whose spec says
`"runner": {"python": "train.py"}` it answers the driver's requests and never returns. docs/own-trainer.md shows how a
script becomes a campaign; `python -m bitrift.runner train.py --checkpoint FILE.h5` makes a single run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bitrift.runner.serving import serve

__all__ = ["serve"]


def __getattr__(name: str) -> Any:
    if name != "serve":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # PyTorch takes seconds to import: what only starts the script must not wait for it.
    from bitrift.runner.serving import serve

    return serve
