// Totals, filters and the list of sessions, worst first.

const PAGE = 200;
let shownEntries = PAGE;
let currentId = null;

// One session may have several entries: one an audit, or one a turn.
function sessionCount() {
  return new Set(entries.map((entry) => entry.session)).size;
}

function showTotals() {
  const severities = tally(1);
  const outcomes = new Map();
  for (const entry of entries) outcomes.set(entry.outcome, (outcomes.get(entry.outcome) || 0) + 1);
  const several = sessionCount() !== entries.length;
  const tile = (number, label, kind, glyph) =>
    h("div", { class: `tile ${kind} ${number ? "" : "zero"}` },
      h("span", { class: "number" }, glyph ? h("span", { class: "glyph", "aria-hidden": "true" }, glyph) : null, number.toLocaleString("en")),
      h("span", { class: "label" }, label));
  byId("summary").append(
    h("div", { class: "tiles" },
      tile(sessionCount(), several ? "sessions" : "audited", "plain"),
      several ? tile(entries.length, "checks", "plain") : null,
      SEVERITIES.slice(0, 3).map((name) => tile(severities.get(name) || 0, name.toLowerCase(), name.toLowerCase(), GLYPHS[name])),
      tile(outcomes.get("clean") || 0, "clean", "clean", "✓"),
      tile(outcomes.get("inconclusive") || 0, "inconclusive", "inconclusive", "?"),
      tile(outcomes.get("not_applicable") || 0, "not applicable", "plain")),
    h("p", { class: "judge" },
      h("strong", {}, `Judge ${run.judge || "unknown"}`), run.judge_note ? `: ${run.judge_note}` : "",
      h("span", { class: "quiet" }, " Every finding is a suspicion with evidence, for a person to confirm.")));
  const paths = Array.isArray(run.paths) && run.paths.length ? ` from ${run.paths.slice(0, 3).join(", ")}${run.paths.length > 3 ? " …" : ""}` : "";
  byId("made").append(`otel-drift ${run.version || ""}, ${run.made || ""}${paths}`);
}

function showFilters() {
  const labels = {}, causes = {};
  for (const entry of entries) {
    Object.assign(labels, entry.labels);
    Object.assign(causes, entry.causes);
  }
  const group = (title, key, counts, name, order) => {
    const values = [...counts.keys()].sort((a, b) => order(a, b) || counts.get(b) - counts.get(a));
    return values.length === 0 ? null : h("fieldset", {},
      h("legend", {}, title),
      values.map((value) => {
        const box = h("input", { type: "checkbox", name: key, value });
        box.addEventListener("change", () => {
          if (box.checked) filters[key].add(value);
          else filters[key].delete(value);
          refresh();
        });
        return h("label", { class: `chip ${key === "severity" ? value.toLowerCase() : ""}` }, box, h("span", {}, name(value)), h("span", { class: "count" }, String(counts.get(value))));
      }));
  };
  const search = h("input", {
    type: "search", id: "search", placeholder: "Session, project, user, trace", autocomplete: "off", spellcheck: "false", "aria-label": "Search sessions",
  });
  search.addEventListener("input", () => {
    filters.search = search.value;
    refresh();
  });
  const form = byId("filters");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.append(
    search,
    ...[
      group("Severity", "severity", tally(1), (value) => `${GLYPHS[value]} ${value.toLowerCase()}`, (a, b) => RANK[a] - RANK[b]),
      group("Type", "type", tally(0), (value) => labels[value], () => 0),
      group("Likely cause", "cause", tally(2), (value) => causes[value], () => 0),
    ].filter(Boolean));
}

function showList() {
  const passing = entries.filter(entryPasses);
  const list = byId("list");
  list.replaceChildren();
  let group = null;
  for (const entry of passing.slice(0, shownEntries)) {
    if (entry.outcome !== group) {
      group = entry.outcome;
      const total = passing.filter((other) => other.outcome === group).length;
      list.append(h("li", { class: "group" }, `${entry.outcome_words} (${total.toLocaleString("en")})`));
    }
    list.append(listItem(entry));
  }
  byId("more").hidden = passing.length <= shownEntries;
  const noun = sessionCount() === entries.length ? "session" : "check";
  byId("shown").textContent =
    passing.length === entries.length ? plural(entries.length, noun) : `${passing.length.toLocaleString("en")} of ${plural(entries.length, noun)}`;
}

function listItem(entry) {
  const compact = entry.events.length === 0;
  const link = h("a", {
    href: `#/s/${encodeURIComponent(entry.id)}`, class: `entry ${compact ? "compact" : ""}`,
    "aria-current": entry.id === currentId ? "true" : null,
  },
    h("span", { class: "line" },
      compact ? null : badge(entry.severity),
      h("span", { class: "name", title: entry.name }, entry.name)),
    compact
      ? h("span", { class: "quiet" }, entry.reason ? entry.reason : checked(entry))
      : [strip(entry.strip),
         h("span", { class: "quiet" }, [plural(entry.events.length, "finding"), checked(entry), entry.at.slice(5, 16)].filter(Boolean).join(" · "))]);
  return h("li", {}, link);
}

// What was looked at; which audit it was, where the page has several.
function checked(entry) {
  const several = entries.some((other) => other.audit !== entry.audit);
  return several ? `${entry.audit.replaceAll("_", " ")}, ${entry.turns}` : entry.turns;
}

function badge(severity) {
  return h("span", { class: `badge ${severity.toLowerCase()}` }, h("span", { "aria-hidden": "true" }, `${GLYPHS[severity]} `), severity);
}

// The session at a glance: one mark a turn, shaped and coloured by its worst event.
function strip(codes) {
  const kinds = { C: "critical", M: "major", m: "minor", x: "failed", o: "unanswered" };
  const shown = codes.slice(0, 60);
  return h("span", { class: "strip", "aria-hidden": "true" },
    [...shown].map((code) => h("span", { class: `mark ${kinds[code] || "fine"}` })), codes.length > 60 ? "…" : "");
}

function refresh() {
  shownEntries = PAGE;
  showList();
  applyFilters();
}
