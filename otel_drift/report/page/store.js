// The data blocks, the filters, and which session passes them.

const SEVERITIES = ["CRITICAL", "MAJOR", "MINOR", "NONE"];
const RANK = { CRITICAL: 0, MAJOR: 1, MINOR: 2, NONE: 3 };
const GLYPHS = { CRITICAL: "✖", MAJOR: "▲", MINOR: "◆", NONE: "●" };
const OUTCOMES = { findings: 0, inconclusive: 1, not_applicable: 2, clean: 3 };

const run = JSON.parse(byId("run").textContent);
const blocks = [...document.querySelectorAll("script.unit")];
const entries = [...document.querySelectorAll("script.unit-index")].map((block, number) => ({
  ...JSON.parse(block.textContent),
  number,
}));
entries.sort(
  (a, b) =>
    (OUTCOMES[a.outcome] ?? 4) - (OUTCOMES[b.outcome] ?? 4) ||
    RANK[a.severity] - RANK[b.severity] ||
    b.events.length - a.events.length ||
    a.number - b.number,
);
const entryById = new Map(entries.map((entry) => [entry.id, entry]));

const filters = { severity: new Set(), type: new Set(), cause: new Set(), search: "" };

function filtering() {
  return filters.severity.size + filters.type.size + filters.cause.size > 0;
}

function eventPasses(type, severity, cause) {
  const passes = (chosen, value) => chosen.size === 0 || chosen.has(value);
  return passes(filters.severity, severity) && passes(filters.type, type) && passes(filters.cause, cause);
}

function entryPasses(entry) {
  const sought = filters.search.trim().toLowerCase();
  if (sought && !`${entry.name} ${entry.words}`.toLowerCase().includes(sought)) return false;
  return !filtering() || entry.events.some(([type, severity, cause]) => eventPasses(type, severity, cause));
}

function detailOf(entry) {
  return JSON.parse(blocks[entry.number].textContent);
}

// How many events each value of a filter covers, over the whole run.
function tally(position) {
  const counts = new Map();
  for (const entry of entries) {
    for (const event of entry.events) {
      if (event[position]) counts.set(event[position], (counts.get(event[position]) || 0) + 1);
    }
  }
  return counts;
}
