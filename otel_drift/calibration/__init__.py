"""How good a judge is on labelled items, and from which score on it should count: what ``calibrate`` measures."""
