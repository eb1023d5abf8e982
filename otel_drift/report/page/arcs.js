// Arcs in the left margin, from the earlier claim to the later one that goes against it.

let drawing = 0;

function drawArcs() {
  cancelAnimationFrame(drawing);
  drawing = requestAnimationFrame(() => {
    const layer = document.querySelector("svg.arcs");
    if (layer && current) layer.replaceChildren(...arcs(layer.parentElement));
  });
}

function arcs(timeline) {
  if (timeline.getClientRects().length === 0) return [];
  const frame = timeline.getBoundingClientRect();
  const layer = timeline.querySelector("svg.arcs");
  layer.setAttribute("height", String(timeline.scrollHeight));
  const gutter = layer.getBoundingClientRect().width;
  const links = current.data.events
    .map((event, number) => ({ event, number, from: anchor(timeline, event.earlier), to: anchor(timeline, event.later) }))
    .filter((link) => link.event.earlier !== null && link.from && link.to)
    .map((link) => ({ ...link, top: middle(link.from) - frame.top, bottom: middle(link.to) - frame.top }))
    .sort((a, b) => Math.abs(a.bottom - a.top) - Math.abs(b.bottom - b.top));
  const lanes = [];
  return links.map((link) => {
    const [top, bottom] = [Math.min(link.top, link.bottom), Math.max(link.top, link.bottom)];
    let lane = lanes.findIndex((used) => used.every(([a, b]) => bottom < a - 4 || top > b + 4));
    if (lane < 0) lane = lanes.push([]) - 1;
    lanes[lane].push([top, bottom]);
    const depth = Math.max(6, gutter - 16 - lane * 11);
    return arc(link, gutter - 4, Math.min(depth, gutter - 12));
  });
}

// Where a claim stands: its first mark; where the quote is not in the answer, the turn.
function anchor(timeline, claim) {
  if (claim === null) return null;
  return timeline.querySelector(`[data-claims~="${claim}"]`) || byId(`turn-${current.data.claims[claim].turn}`);
}

function middle(element) {
  const box = element.getClientRects()[0];
  return box.top + Math.min(box.height, 24) / 2;
}

function arc(link, edge, left) {
  const { event, number, top, bottom } = link;
  const down = bottom >= top ? 1 : -1;
  const bend = Math.min(10, Math.abs(bottom - top) / 2);
  const kind = event.type === "CONTRADICTION" ? "contradiction" : event.type === "DROPPED_QUALIFICATION" ? "dropped" : "other";
  const path = `M${edge} ${top} H${left + bend} Q${left} ${top} ${left} ${top + down * bend} V${bottom - down * bend} Q${left} ${bottom} ${left + bend} ${bottom} H${edge - 5}`;
  const shown = eventPasses(event.type, event.severity, event.cause);
  return svg("g", { class: `arc ${kind} ${shown ? "" : "filtered"}`, "data-arc": number, on: { click: () => focusEvent(number) } },
    svg("title", {}, `${event.type_words}: turn ${current.data.claims[event.earlier].turn} → ${event.turn}`),
    svg("path", { class: "hit", d: path }),
    svg("path", { class: "line", d: path }),
    svg("circle", { cx: edge, cy: top, r: 3 }),
    svg("path", { class: "head", d: `M${edge - 6} ${bottom - 4} L${edge + 2} ${bottom} L${edge - 6} ${bottom + 4} Z` }));
}

function focusEvent(number) {
  const card = byId(`event-${number}`);
  if (!card) return;
  card.scrollIntoView({ block: "center" });
  card.focus({ preventScroll: true });
  card.classList.remove("found");
  void card.offsetWidth;
  card.classList.add("found");
}
