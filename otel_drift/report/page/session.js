// One session: its turns, claims coloured by grounding, and the events at their turn.

const GROUNDING = {
  GROUNDED: ["grounded", "✓"],
  PARTIALLY_GROUNDED: ["partial", "◐"],
  UNSUPPORTED: ["unsupported", "✕"],
  NOT_GROUNDABLE: ["ungroundable", "?"],
  fully_grounded: ["grounded", "✓"],
  partially_grounded: ["partial", "◐"],
  ungrounded: ["unsupported", "✕"],
  contradicted: ["contradicted", "≠"],
};

function grounding(status) {
  return GROUNDING[status] || ["other", "·"];
}

function statusTag(claim) {
  const [kind, glyph] = grounding(claim.status);
  return claim.status ? h("span", { class: `status ${kind}` }, h("span", { "aria-hidden": "true" }, `${glyph} `), claim.status_words) : null;
}

function showSession(entry) {
  const data = detailOf(entry);
  current = { entry, data };
  const events = data.events.map((event, number) => ({ ...event, number }));
  byId("main").replaceChildren(...[
    h("a", { class: "back", href: "#/" }, "← All sessions"),
    sessionHead(entry, data),
    events.length ? findingList(events, data) : null,
    longformView(data),
    events.length || data.claims.length ? legend(data) : null,
    h("div", { class: "timeline" },
      svg("svg", { class: "arcs", "aria-hidden": "true" }),
      data.turns.map((turn) => turnCard(turn, data, events.filter((event) => event.turn === turn.number)))),
    data.session.url ? h("p", { class: "quiet" }, outside(data.session.url, "Open the session on the platform")) : null,
    h("p", { class: "refs quiet" }, "Traces ", data.session.traces.slice(0, 50).map((trace) => [h("code", {}, trace), " "])),
  ].filter(Boolean));
  applyFilters();
}

function sessionHead(entry, data) {
  const { session, unit } = data;
  const facts = [
    session.project, session.environment, session.user && `user ${session.user}`, session.turns,
    ...data.flags, session.at, session.duration, session.conventions.length && `read as ${session.conventions.join(", ")}`,
  ].filter(Boolean);
  const judged = [
    `${unit.audit} by ${unit.judge}`, unit.calls && plural(unit.calls, "call"), unit.tokens && `${unit.tokens.toLocaleString("en")} tokens, ${unit.cost}`, ...unit.prompts,
  ].filter(Boolean);
  return h("header", { class: "session-head" },
    h("h2", {},
      unit.severity !== "NONE" ? badge(unit.severity) : h("span", { class: `badge outcome ${unit.outcome}` }, unit.outcome_words),
      h("span", { class: "name" }, session.name),
      session.own_id ? null : h("span", { class: "quiet" }, " (no session id, first trace)")),
    h("p", { class: "facts" }, facts.join(" · ")),
    h("p", { class: "facts" }, judged.join(" · ")),
    unit.reason ? h("p", { class: "notice" }, h("strong", {}, unit.reason), unit.reason_words ? `: ${unit.reason_words}` : "") : null,
    unit.assessment ? h("p", { class: "assessment", dir: "auto" }, unit.assessment) : null,
    session.hints.length ? h("details", { class: "hints" },
      h("summary", {}, `${plural(session.hints.length, "gap")} in what the traces hold`),
      h("ul", {}, session.hints.map((hint) => h("li", {}, hint.what, hint.remedy ? h("span", { class: "quiet" }, ` → ${hint.remedy}`) : null)))) : null);
}

function findingList(events, data) {
  return h("ol", { class: "finding-list", "aria-label": "Findings" }, events.map((event) =>
    h("li", { "data-event": event.number },
      h("a", { href: eventLink(event) },
        badge(event.severity),
        h("span", { class: "what" }, event.type_words),
        h("span", { class: "where" }, event.earlier === null ? `turn ${event.turn}` : `turn ${data.claims[event.earlier].turn} → ${event.turn}`),
        h("span", { class: "quote", dir: "auto" }, `“${data.claims[event.later].quote}”`)))));
}

function legend(data) {
  const used = new Set(data.claims.map((claim) => claim.status));
  return h("p", { class: "legend" }, data.longform ? "Sentences: " : "Claims: ",
    Object.keys(GROUNDING).filter((status) => used.has(status)).map((status) => {
      const [kind, glyph] = GROUNDING[status];
      return [h("span", { class: `claim sample ${kind}` }, h("sup", {}, glyph), status.replaceAll("_", " ").toLowerCase()), " "];
    }),
    h("span", { class: "quiet" }, "Choose a claim to see its evidence."));
}

function turnCard(turn, data, events) {
  const worst = events.reduce((found, event) => (RANK[event.severity] < RANK[found] ? event.severity : found), "NONE");
  return h("article", { class: `turn ${worst.toLowerCase()}`, id: `turn-${turn.number}`, "aria-label": `Turn ${turn.number}` },
    h("div", { class: "turn-number" }, h("span", { class: `dot ${worst.toLowerCase()}`, "aria-hidden": "true" }), h("span", {}, `Turn ${turn.number}`), h("time", {}, turn.at.slice(11, 19))),
    h("div", { class: "turn-body" },
      h("p", { class: "user", dir: "auto" }, turn.user === null ? h("em", {}, "user message not captured") : turn.user),
      answer(turn, data),
      turnFacts(turn, data),
      data.notes.filter(([number]) => number === turn.number).map(([, text]) => h("p", { class: "note", dir: "auto" }, h("strong", {}, "Note "), text)),
      events.map((event) => eventCard(event, data))));
}

function answer(turn, data) {
  if (turn.answer === null) {
    return h("p", { class: "answer missing" }, turn.answer_words, turn.error ? `: ${turn.error}` : "");
  }
  const long = turn.answer.length > 2400;
  const text = h("div", { class: `answer ${long ? "long" : ""}`, dir: "auto" }, marked(turn, data));
  if (!long) return text;
  const toggle = h("button", { type: "button", class: "unfold", on: { click: () => {
    text.classList.toggle("long");
    toggle.textContent = text.classList.contains("long") ? "Show the whole answer" : "Fold the answer";
    drawArcs();
  } } }, "Show the whole answer");
  return [text, toggle];
}

// The answer, cut where claims begin and end; a stretch that several claims share belongs to each of them.
function marked(turn, data) {
  const cuts = new Set([0, turn.answer.length]);
  for (const [start, end] of turn.marks) cuts.add(start).add(end);
  const inEvents = new Set(data.events.flatMap((event) => [event.earlier, event.later]));
  const points = [...cuts].sort((a, b) => a - b);
  const begun = new Set();
  return points.slice(1).map((end, index) => {
    const start = points[index];
    const text = turn.answer.slice(start, end);
    const claims = turn.marks.filter((mark) => mark[0] <= start && mark[1] >= end).map((mark) => mark[2]);
    if (claims.length === 0) return text;
    claims.sort((a, b) => data.claims[a].quote.length - data.claims[b].quote.length);
    const claim = data.claims[claims[0]];
    const [kind, glyph] = grounding(claim.status);
    const first = !begun.has(claims[0]);
    claims.forEach((number) => begun.add(number));
    return h("mark", {
      class: `claim ${kind} ${claims.some((number) => inEvents.has(number)) ? "in-event" : ""}`, role: "button", tabindex: first ? "0" : "-1", "data-claims": ` ${claims.join(" ")} `,
      title: `${claim.status_words || "claim"}: show evidence`, on: onPress(() => showClaims(claims)),
    }, first ? h("sup", {}, glyph) : null, text);
  });
}

function turnFacts(turn, data) {
  const facts = [turn.model, turn.tools.length && `tools: ${turn.tools.join(", ")}`, turn.alternatives && `${plural(turn.alternatives, "other answer")} to this message`, turn.feedback && `feedback: ${turn.feedback}`].filter(Boolean);
  return h("details", { class: `passages ${turn.retrieval}`, on: { toggle: drawArcs } },
    h("summary", {}, turn.retrieval_words, facts.length ? h("span", { class: "quiet" }, ` · ${facts.join(" · ")}`) : null),
    turn.passages.map((number) => passageCard(data, number, [])),
    turn.ref ? h("p", { class: "quiet" }, "answer span ", h("code", {}, turn.ref), turn.url ? [" ", outside(turn.url, "Open on the platform")] : null) : null);
}

function eventCard(event, data) {
  const earlier = event.earlier === null ? null : data.claims[event.earlier];
  const later = data.claims[event.later];
  return h("section", { class: `event ${event.severity.toLowerCase()}`, id: `event-${event.number}`, "data-event": event.number, tabindex: "-1" },
    h("h3", {}, badge(event.severity), h("span", { class: "what" }, event.type_words),
      h("span", { class: "quiet" }, event.status),
      event.confidence === null ? null : h("span", { class: "quiet" }, `confidence ${event.confidence.toFixed(2)}`),
      event.cause_words ? h("span", { class: "quiet" }, `likely cause: ${event.cause_words}`) : null),
    h("div", { class: earlier ? "sides two" : "sides" },
      earlier ? [side("Earlier", earlier), h("span", { class: "arrow", "aria-hidden": "true" }, "→")] : null,
      side(earlier ? "Later" : "Claim", later)),
    event.description ? h("p", { class: "why", dir: "auto" }, event.description) : null,
    h("p", { class: "actions" },
      h("button", { type: "button", on: { click: () => showEvent(event) } }, "Show evidence"),
      h("a", { href: eventLink(event), title: "Link to this finding" }, "Link"),
      event.id ? h("code", { class: "quiet" }, event.id) : null));
}

function side(label, claim) {
  return h("div", { class: "side" },
    h("p", { class: "side-head" }, h("strong", {}, `${label}, turn ${claim.turn}`), " ", statusTag(claim)),
    h("blockquote", { dir: "auto" }, `“${claim.quote}”`),
    claim.evidence.map((evidence) => h("p", { class: "cited", dir: "auto" }, h("code", {}, evidence.id), ` “${evidence.quote}”`)),
    claim.ref ? h("p", { class: "ref" }, h("code", {}, claim.ref)) : null);
}

function eventLink(event) {
  return `#/s/${encodeURIComponent(current.entry.id)}/e/${encodeURIComponent(event.id || String(event.number))}`;
}

// Dims and folds what the filters leave out.
function applyFilters() {
  if (!current) return;
  for (const element of document.querySelectorAll("#main [data-event]")) {
    const event = current.data.events[Number(element.dataset.event)];
    element.classList.toggle("filtered", !eventPasses(event.type, event.severity, event.cause));
  }
  for (const arc of document.querySelectorAll("#main [data-arc]")) {
    const event = current.data.events[Number(arc.dataset.arc)];
    arc.classList.toggle("filtered", !eventPasses(event.type, event.severity, event.cause));
  }
  drawArcs();
}
