// A long answer: how its score grows sentence by sentence, which sections drift, and every sentence with its status.

const CURVE = { width: 720, height: 168, left: 58, right: 12, top: 12, bottom: 26 };
const CURVE_BANDS = [[0.3, "moderate"], [0.5, "severe"], [0.7, "critical"]];

function longformView(data) {
  const view = data.longform;
  if (!view) return null;
  return h("section", { class: "longform", "aria-label": "Drift over the answer" },
    view.verdict.map((line) => h("p", { class: "verdict", dir: "auto" }, line)),
    curve(view),
    h("ol", { class: "sections", "aria-label": "Sections" }, view.sections.map((section) => sectionRow(section))),
    h("details", { class: "sentences", open: true, on: { toggle: drawArcs } },
      h("summary", {}, plural(view.statuses.length, "sentence")),
      h("ol", {}, view.statuses.map((status, index) => sentenceRow(index, status, view, data)))));
}

function curve(view) {
  const { width, height, left, right, top, bottom } = CURVE;
  const count = view.trajectory.length;
  const x = (index) => left + ((index + 0.5) * (width - left - right)) / count;
  const y = (score) => top + (1 - score) * (height - top - bottom);
  const at = (index, score) => `${x(index).toFixed(1)} ${y(score).toFixed(1)}`;
  const line = view.trajectory.map((score, index) => `${index ? "L" : "M"}${at(index, score)}`).join("");
  const weaker = view.statuses.map((status, index) => [status, index]).filter(([status]) => status !== "fully_grounded");
  return svg("svg", { class: "curve", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Score by sentence: ${view.severity}, ${view.score.toFixed(2)} at the end` },
    CURVE_BANDS.map(([score, name]) => [
      svg("path", { class: "band", d: `M${left} ${y(score)}H${width - right}` }),
      svg("text", { class: "label end", x: left - 6, y: y(score) + 3.5 }, name)]),
    svg("path", { class: "axis", d: `M${left} ${y(0)}H${width - right}` }),
    view.sections.slice(1).map((section) => svg("path", { class: "cut", d: `M${(x(section.first) + x(section.first - 1)) / 2} ${top}V${y(0)}` })),
    view.start === null ? null : [
      svg("path", { class: "start", d: `M${x(view.start)} ${top}V${y(0)}` }),
      svg("text", { class: `label start ${x(view.start) > width / 2 ? "end" : ""}`, x: x(view.start) + (x(view.start) > width / 2 ? -5 : 5), y: top + 8 }, `drift starts at sentence ${view.start + 1}`)],
    svg("path", { class: "line", d: line }),
    weaker.map(([status, index]) => svg("g", { class: `point ${grounding(status)[0]}`, role: "button", tabindex: "0", "aria-label": `Sentence ${index + 1}, ${status.replaceAll("_", " ")}`, on: onPress(() => showClaims([index])) },
      svg("circle", { cx: x(index), cy: y(view.trajectory[index]), r: 4.5 }))),
    svg("text", { class: "label", x: left, y: height - 8 }, "sentence 1"),
    svg("text", { class: "label end", x: width - right, y: height - 8 }, String(count)));
}

function sectionRow(section) {
  const where = section.first === section.last ? `sentence ${section.first + 1}` : `sentences ${section.first + 1} to ${section.last + 1}`;
  return h("li", {},
    h("span", { class: "title", dir: "auto" }, section.title || h("em", {}, "no heading")),
    h("span", { class: "quiet" }, where),
    svg("svg", { class: "bar", viewBox: "0 0 100 8", "aria-hidden": "true" },
      svg("rect", { class: "rail", x: 0, y: 0, width: 100, height: 8 }),
      svg("rect", { class: "filled", x: 0, y: 0, width: 100 * section.score, height: 8 })),
    h("span", { class: "score" }, section.score.toFixed(2)));
}

function sentenceRow(index, status, view, data) {
  const [kind, glyph] = grounding(status);
  const claim = data.claims[index];
  const weaker = status !== "fully_grounded";
  return [
    index === view.start ? h("li", { class: "here" }, "drift starts here") : null,
    h("li", { class: `sentence ${kind} ${weaker ? "weaker" : ""}`, role: "button", tabindex: "0", on: onPress(() => showClaims([index])) },
      h("span", { class: "number" }, String(index + 1)),
      h("span", { class: `status ${kind}`, title: status.replaceAll("_", " ") }, glyph),
      h("span", { class: "words", dir: "auto" }, claim.quote,
        weaker ? h("span", { class: "why" }, h("span", { class: `status ${kind}` }, `${status.replaceAll("_", " ")}: `), claim.explanation) : null))];
}
