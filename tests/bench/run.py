"""Run every benchmark, print its figures, and fail if a budget is missed. Called by `make bench`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Each script ends with one JSON line; its `budgets` map a name to [value, "<=" or ">=", bound]."""
    missed = []
    for script in sorted(HERE.glob("bench_*.py")):
        print(f"== {script.stem}", flush=True)
        run = subprocess.run([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, check=False)
        print(run.stdout, flush=True)
        if run.returncode:
            missed.append(f"{script.stem}: exit status {run.returncode}")
            continue
        for name, (value, relation, bound) in json.loads(run.stdout.splitlines()[-1]).get("budgets", {}).items():
            if not (value <= bound if relation == "<=" else value >= bound):
                missed.append(f"{script.stem}: {name} is {value:g}, must be {relation} {bound:g}")
    for line in missed:
        print(f"MISSED {line}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
