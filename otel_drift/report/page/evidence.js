// The evidence panel: what a claim rests on, in the words of its own turn's passages.

let current = null;
let opener = null;

function showClaims(numbers) {
  openPanel("Claim", numbers.map((number) => claimEvidence(number)));
}

function showEvent(event) {
  const claims = event.earlier === null ? [event.later] : [event.earlier, event.later];
  openPanel(`${event.type_words}, ${event.severity.toLowerCase()}`, [
    event.description ? h("p", { dir: "auto" }, event.description) : null,
    claims.map((number, place) => claimEvidence(number, claims.length === 2 ? ["Earlier, turn", "Later, turn"][place] : "Turn")),
  ]);
}

function openPanel(title, content) {
  const panel = byId("evidence");
  if (panel.hidden) opener = document.activeElement;
  panel.replaceChildren(
    h("div", { class: "panel-head" }, h("h2", {}, title), h("button", { type: "button", class: "close", "aria-label": "Close the evidence", on: { click: closePanel } }, "×")),
    ...[content].flat(Infinity).filter(Boolean));
  panel.hidden = false;
  byId("columns").classList.add("with-evidence");
  panel.scrollTop = 0;
  panel.focus({ preventScroll: true });
  panel.querySelectorAll(".passage-text").forEach((text) => {
    const quote = text.querySelector("mark");
    if (quote) text.scrollTop = quote.offsetTop - text.offsetTop - 40;
  });
  drawArcs();
}

function closePanel() {
  const panel = byId("evidence");
  if (panel.hidden) return;
  panel.hidden = true;
  panel.replaceChildren();
  byId("columns").classList.remove("with-evidence");
  if (opener && opener.isConnected) opener.focus({ preventScroll: true });
  drawArcs();
}

function claimEvidence(number, label = "Turn") {
  const { data } = current;
  const claim = data.claims[number];
  const cited = new Map();
  for (const evidence of claim.evidence) {
    if (evidence.passage >= 0) cited.set(evidence.passage, [...(cited.get(evidence.passage) || []), evidence]);
  }
  const turn = data.turns.find((other) => other.number === claim.turn);
  const others = (turn ? turn.passages : []).filter((passage) => !cited.has(passage));
  return h("section", { class: "claim-evidence" },
    h("h3", {}, `${label} ${claim.turn}`, " ", statusTag(claim)),
    h("blockquote", { dir: "auto" }, `“${claim.quote}”`),
    claim.text && claim.text !== claim.quote ? h("p", { class: "quiet", dir: "auto" }, claim.text) : null,
    claim.explanation ? h("p", { class: "note", dir: "auto" }, claim.explanation) : null,
    claim.qualifiers.length ? h("p", { class: "quiet" }, `Qualified by: ${claim.qualifiers.join(", ")}`) : null,
    claim.missing ? h("p", { class: "note", dir: "auto" }, h("strong", {}, "Left out "), `the passage says “${claim.missing}”, the answer does not.`) : null,
    claim.ref ? h("p", { class: "ref" }, "span ", h("code", {}, claim.ref)) : null,
    [...cited].map(([passage, evidence]) => passageCard(data, passage, evidence)),
    claim.evidence.filter((evidence) => evidence.passage < 0).map((evidence) =>
      h("p", { class: "cited", dir: "auto" }, h("code", {}, evidence.id), ` “${evidence.quote}”`)),
    claim.evidence.length === 0 ? h("p", { class: "unfounded" }, emptyEvidence(claim, turn)) : null,
    others.length ? h("details", { class: "others" },
      h("summary", {}, claim.evidence.length ? `Other passages of turn ${claim.turn} (${others.length})` : `What turn ${claim.turn} retrieved (${others.length})`),
      others.map((passage) => passageCard(data, passage, []))) : null);
}

function emptyEvidence(claim, turn) {
  if (!turn || claim.status === "NOT_GROUNDABLE") return "The passages of this turn were not captured, so nothing can be said about this claim.";
  return turn.passages.length ? "No passage of this turn was found to support this." : `Nothing to support this: ${turn.retrieval_words}.`;
}

function passageCard(data, number, evidence) {
  const passage = data.passages[number];
  const from = { retriever: "retriever span", reranker: "reranker span", tool: "tool result", prompt: "the prompt" };
  const facts = [
    passage.author, passage.date, passage.type, `rank ${passage.rank}`, passage.score === null ? "" : `score ${Number(passage.score).toPrecision(3)}`,
    `from ${from[passage.from]}`, passage.own_id ? "" : "id made here",
  ].filter(Boolean);
  const origin = passage.title && passage.source && passage.title !== passage.source ? `${passage.title} (${passage.source})` : passage.title || passage.source;
  return h("section", { class: "passage" },
    h("p", { class: "passage-head" }, h("code", {}, passage.id), origin ? h("span", { dir: "auto" }, ` ${origin}`) : null),
    h("div", { class: "passage-text", dir: "auto", tabindex: "0" },
      passage.captured ? highlighted(data.texts[passage.text], evidence) : h("em", {}, "text not captured")),
    evidence.filter((one) => !one.at).map((one) => h("p", { class: "cited", dir: "auto" }, `“${one.quote}”`)),
    h("p", { class: "quiet" }, facts.join(" · ")),
    passage.ref ? h("p", { class: "ref" }, "span ", h("code", {}, passage.ref)) : null);
}

function highlighted(text, evidence) {
  const spans = evidence.filter((one) => one.at).map((one) => one.at).sort((a, b) => a[0] - b[0]);
  const parts = [];
  let done = 0;
  for (const [start, end] of spans) {
    if (start < done) continue;
    parts.push(text.slice(done, start), h("mark", { class: "quoted" }, text.slice(start, end)));
    done = end;
  }
  parts.push(text.slice(done));
  return parts;
}
