"""The conflict gate: an application asks it, between retrieval and generation, whether a model may answer.

`conflict_gate` decides; beside it stand its presets, what it is asked (`passages`), what it says (`decision`), whether
the passages answer at all (`answerability`), and where decisions are kept (`recording`). `http` serves it.
"""

from otel_drift.gate.answerability import Answerability, question_coverage
from otel_drift.gate.conflict_gate import ConflictGate
from otel_drift.gate.decision import GateDecision
from otel_drift.gate.presets import PRESETS, GatePreset

__all__ = ["PRESETS", "Answerability", "ConflictGate", "GateDecision", "GatePreset", "question_coverage"]
