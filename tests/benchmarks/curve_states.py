"""The curve classifier on labelled curves: python tests/benchmarks/curve_states.py [--curves N] [--days N]
[--seed N].

Prints the confusion matrix, the share of right windows, delays by kind of incident, causes, and false alarms per
engine-day at one request a second and more. The classifier was tuned on seeds 1, 4 and 3000 to 3300; seed 5000 is
for reporting.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "corpus"))

from hitcurve.reading import STATES
from labelled_curves.corpus import corpus
from labelled_curves.engine_days import engine_days
from labelled_curves.records import LabelledCurve
from labelled_curves.scoring import Score, false_alarms
from labelled_curves.watch import Watched, watch


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", type=int, default=1040, help="curves of the corpus (default %(default)s)")
    parser.add_argument("--days", type=int, default=60, help="healthy engine-days (default %(default)s)")
    parser.add_argument("--seed", type=int, default=5000, help="seed of both (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    arguments = parser.parse_args()
    score = Score()
    for watched in _watched(corpus(arguments.curves, arguments.seed), arguments.curves, "curves"):
        score.add(watched)
    alarms = false_alarms(_watched(engine_days(arguments.days, arguments.seed), arguments.days, "engine-days"))
    found = _document(score) if score.windows else {}
    found["false_alarms"] = {
        kind: {"days": round(one.days, 2), "alarms": one.alarms, "per_day": round(one.per_day, 4), **one.states}
        for kind, one in alarms.items()
    }
    if arguments.json:
        print(json.dumps(found, indent=1))
        return 0
    if score.windows:
        _print_matrix(score)
    for name, value in found.items():
        print(f"{name}: {json.dumps(value)}" if not isinstance(value, dict) else f"{name}:")
        if isinstance(value, dict):
            for key, inner in value.items():
                print(f"  {key}: {json.dumps(inner)}")
    return 0


def _document(score: Score) -> dict[str, object]:
    return {
        "curves": score.curves,
        "windows": score.windows,
        "right": round(score.share_right, 5),
        "sure_windows": score.sure.total(),
        "right_of_sure": round(score.sure_right, 5),
        "macro_average": round(score.macro, 5),
        "recalls": {state: round(recall, 4) for state, recall in score.recalls().items()},
        "right_causes": round(score.causes_right, 4),
        "incidents_without_episode": score.missed_episodes,
        "delays": {kind: delay.row() for kind, delay in sorted(score.delays.items())},
    }


def _print_matrix(score: Score) -> None:
    print("rows: true state, columns: named state; windows in which only one state is right")
    print(f"{'':12}" + "".join(f"{state:>12}" for state in STATES))
    for truth in STATES:
        print(f"{truth:12}" + "".join(f"{score.sure[truth, said]:12}" for said in STATES))


def _watched(curves: Iterator[LabelledCurve], total: int, what: str) -> Iterator[Watched]:
    for number, curve in enumerate(curves, 1):
        if number % 20 == 0 or number == total:
            print(f"\r{number} of {total} {what}", end="", file=sys.stderr, flush=True)
        yield watch(curve)
    print(file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
