"""The words of the page that a reader may not know; docs/glossary.md and docs/outcomes.md define them at length."""

from __future__ import annotations

TERMS = {
    "arm": "One configuration that a campaign compares, such as a parallel strategy; every fault runs in every arm.",
    "base": "The unaltered checkpoint from which the runs of an arm resume.",
    "canary": "A run with a known fault and therefore a known outcome, which shows that the harness injects faults and "
    "notices them.",
    "control": "A run without a fault; all repetitions must be bit-identical.",
    "crash": "A run that failed visibly: a loss that is not finite, an exception, a signal, a hang, a refused file, or "
    "a failed rank or link that it could not continue without.",
    "draw": "The number of a fault in the random sequence of its stratum, and that fault itself.",
    "drill": "A fault planted on purpose in the harness itself, to show that the harness notices it.",
    "envelope run": "A run without a fault in a data order of its own; trials are judged against these runs.",
    "golden run": "The undisturbed run: what a trial would have been without its fault.",
    "harmful": "The share of faults beyond the true limit between masked and SDC, which the clean runs of a campaign "
    "only estimate.",
    "held-out run": "A run without a fault that is judged like a trial; it measures how often a healthy run is called "
    "SDC.",
    "horizon": "The evaluation at which a trial is judged, by default the last one of its run.",
    "interval": "The range that contains the true rate with the stated confidence, however often one looks.",
    "jitter run": "A run with the lowest bit of up to 16 weights flipped; it shows how far a harmless fault ends from "
    "its golden run.",
    "masked": "No visible harm: the run finished, and the model is as good as without the fault.",
    "p-value": "The share of the run and its arm's clean runs that are at least as harmful as the run.",
    "resolution": "The smallest fall of an accuracy, relative rise of a loss, or change of a metric of your own "
    "that would be called SDC.",
    "SDC": "Silent data corruption: the run finished, nothing reported an error, and the model is worse.",
    "stratum": "A part of the faults from which draws are made separately: one role combined with one bit field, "
    "one fault model, one phase of training in which ranks fail, one kind of message combined with one bit field, or "
    "one kind of failure of a link.",
    "trial": "A run with a drawn fault, in the file that it loads or on its way, whose outcome enters the rates.",
}

REASONS = {
    "bitwise": "the final state equals the golden run's, bit for bit",
    "reconverged": "a judged metric was worse than healthy runs at an earlier evaluation, but not at the horizon",
    "within_noise": "the final state differs, but no judged metric was ever worse than healthy runs",
    "low_test_accuracy": "test accuracy is worse than healthy runs at the horizon",
    "high_test_loss": "a test loss is worse than healthy runs at the horizon, but test accuracy is not",
    "worse_metric": "a metric of the training program's own is worse than healthy runs at the horizon",
    "training_only": "only training metrics are worse than healthy runs at the horizon",
    "nonfinite": "a loss or a metric became NaN or infinite",
    "exception": "an exception ended a rank or the training program",
    "signal": "a signal killed a rank or the training program",
    "hang": "the run exceeded its deadline",
    "rejected": "the worker refused the checkpoint, or a guard stopped the run",
    "unrecovered": "a rank or a link failed, and the run could not continue without it",
}
