"""A worker of ``hitcurve load --processes N``: options in on standard input, results out on standard output."""

import sys

from hitcurve.errors import HitcurveError
from hitcurve_loadtests.workers import work

__all__: list[str] = []


def _main() -> int:
    try:
        print(work(sys.stdin.read()))
    except HitcurveError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(_main())
