"""Recompute the embedded judge's data from the dev halves: the rarity table and the nine weights.

Deterministic, standard library only. ``python tests/bench/fit_rules.py`` writes ``otel_drift/judges/data/*.json``;
``--check`` fails when the committed files are not what it computes. Prints leave-one-set-out scores.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from benchmarks import BAD, GROUNDING_SETS, auroc, balanced_accuracy, is_scored, items, question

from otel_drift import judges
from otel_drift.judges.rules_grounding import grounding_features
from otel_drift.judges.rules_lexicon import FEATURES
from otel_drift.text import content_words, stem

DATA = Path(judges.__file__).parent / "data"
SIGNS = (-1, -1, -1, -1, -1, 1, 1, 1, 1)
"""Which way each feature may point: more cover never makes a claim less supported."""
RIDGE = 0.0002
THRESHOLD = 0.5
"""The one threshold for all sets: the classes weigh the same in the fit, so this is where the model is indifferent."""
VERSION = "1"

Row = tuple[tuple[float, ...], bool]


def main() -> None:
    """Fit, report and write (or compare)."""
    check = "--check" in sys.argv[1:]
    write("rarity.json", rarity_table(), check)
    rows = {suite: feature_rows(suite) for suite in GROUNDING_SETS}
    for suite, held in left_out(rows).items():
        print(f"fitted without {suite:12} AUROC {auroc(held):.3f}  BA {balanced_accuracy(held, THRESHOLD):.3f}")
    weights, bias = fit(rows)
    model = {
        "version": VERSION,
        "fitted_on": list(GROUNDING_SETS),
        "weights": {name: round(w, 4) for name, w in zip(FEATURES, weights, strict=True)},
        "bias": round(bias, 4),
        "flag": 0.75,
        "accept": 0.25,
    }
    write("grounding.json", model, check)
    for suite, group in rows.items():
        scored = scores(group, weights, bias)
        print(f"fitted on all, {suite:12} AUROC {auroc(scored):.3f}  BA {balanced_accuracy(scored, THRESHOLD):.3f}")
    print(json.dumps(model))


def left_out(rows: dict[str, list[Row]]) -> dict[str, list[tuple[float, bool]]]:
    """Scores of each set by a model that never saw that set."""
    held = {}
    for suite in rows:
        weights, bias = fit({s: r for s, r in rows.items() if s != suite})
        held[suite] = scores(rows[suite], weights, bias)
    return held


def rarity_table() -> dict[str, Any]:
    """Document frequencies of stems over the distinct passages of the grounding sets, stems seen once left out."""
    passages = {p["text"] for suite in GROUNDING_SETS for item in items(suite) for p in item["passages"]}
    frequencies = Counter(s for text in sorted(passages) for s in {stem(w) for w in content_words(text)})
    groups: dict[int, list[str]] = {}
    for word, count in frequencies.items():
        if count > 1 and not word[0].isdigit():
            groups.setdefault(count, []).append(word)
    return {
        "documents": len(passages),
        "stems_by_frequency": {str(count): " ".join(sorted(groups[count])) for count in sorted(groups)},
    }


def feature_rows(suite: str) -> list[Row]:
    """Features and label of every scored item that has a statement."""
    rows = []
    for item in filter(is_scored, items(suite)):
        values = grounding_features(item["text"], [p["text"] for p in item["passages"]], question(item))
        if values is not None:
            rows.append((values, item["label"] in BAD))
    return rows


def fit(rows: dict[str, list[Row]]) -> tuple[list[float], float]:
    """Ridge logistic regression by Newton steps; every set weighs the same, and both classes within it.

    A weight that comes out with the wrong sign is set to zero and the rest fitted again.
    """
    weighted: list[tuple[tuple[float, ...], bool, float]] = []
    for group in rows.values():
        bad = sum(label for _, label in group)
        for values, label in group:
            weighted.append((values, label, 1.0 / (2 * len(rows) * (bad if label else len(group) - bad))))
    active = list(range(len(FEATURES)))
    while True:
        solution = _newton(weighted, active)
        wrong = [i for i, w in zip(active, solution, strict=False) if w * SIGNS[i] < 0]
        if not wrong:
            weights = [0.0] * len(FEATURES)
            for i, w in zip(active, solution, strict=False):
                weights[i] = w
            return weights, solution[-1]
        active = [i for i in active if i not in wrong]


def _newton(data: list[tuple[tuple[float, ...], bool, float]], active: list[int]) -> list[float]:
    size = len(active) + 1
    current = [0.0] * size
    for _ in range(30):
        gradient = [RIDGE * w for w in current[:-1]] + [0.0]
        hessian = [[RIDGE if i == j and i < size - 1 else 0.0 for j in range(size)] for i in range(size)]
        for values, label, weight in data:
            x = [values[i] for i in active] + [1.0]
            z = max(-30.0, min(30.0, sum(a * b for a, b in zip(current, x, strict=True))))
            p = 1.0 / (1.0 + math.exp(-z))
            error, curvature = weight * (p - label), weight * p * (1.0 - p)
            for i in range(size):
                gradient[i] += error * x[i]
                row, scaled = hessian[i], curvature * x[i]
                for j in range(size):
                    row[j] += scaled * x[j]
        step = _solve(hessian, gradient)
        current = [c - s for c, s in zip(current, step, strict=True)]
        if max(abs(s) for s in step) < 1e-9:
            break
    return current


def _solve(matrix: list[list[float]], vector: list[float]) -> list[float]:
    rows = [[*row, value] for row, value in zip(matrix, vector, strict=True)]
    size = len(rows)
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(i + 1, size):
            factor = rows[r][i] / rows[i][i]
            for c in range(i, size + 1):
                rows[r][c] -= factor * rows[i][c]
    solution = [0.0] * size
    for i in reversed(range(size)):
        known = sum(rows[i][c] * solution[c] for c in range(i + 1, size))
        solution[i] = (rows[i][size] - known) / rows[i][i]
    return solution


def scores(rows: list[Row], weights: list[float], bias: float) -> list[tuple[float, bool]]:
    """(probability, is bad) of every row."""
    found = []
    for values, label in rows:
        z = bias + sum(w * v for w, v in zip(weights, values, strict=True))
        found.append((1.0 / (1.0 + math.exp(-max(-40.0, min(40.0, z)))), label))
    return found


def write(name: str, data: dict[str, Any], check: bool) -> None:
    text = json.dumps(data, ensure_ascii=False, indent=1) + "\n"
    path = DATA / name
    if check and path.read_text("utf-8") != text:
        raise SystemExit(f"{path} is not what the dev sets give: run tests/bench/fit_rules.py and commit it")
    if not check:
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
