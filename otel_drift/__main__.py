"""``python -m otel_drift`` is the command line."""

from otel_drift.cli import main

main()
