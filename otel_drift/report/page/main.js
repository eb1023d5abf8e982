// Start-up: routes (#/s/SESSION and #/s/SESSION/e/EVENT), theme, keys.

function route() {
  const [, kind, id, , eventId] = location.hash.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return "";
    }
  });
  const asked = kind === "s" ? entryById.get(id) : null;
  const entry = asked || entries.find(entryPasses) || entries[0];
  document.body.classList.toggle("list-first", !asked);
  if (!entry) {
    byId("main").replaceChildren(h("p", { class: "notice" }, "No session was audited in this run."));
    return;
  }
  if (asked) drawArcs();
  if (entry.id !== currentId) {
    closePanel();
    currentId = entry.id;
    showSession(entry);
    showList();
    if (asked && !eventId) scrollTo(0, 0);
  }
  if (eventId) {
    const number = current.data.events.findIndex((event, index) => (event.id || String(index)) === eventId);
    if (number >= 0) focusEvent(number);
  }
}

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const button = byId("theme");
  button.setAttribute("aria-pressed", String(dark));
  button.textContent = dark ? "Light" : "Dark";
}

showTotals();
showFilters();
showList();
setTheme(matchMedia("(prefers-color-scheme: dark)").matches);
byId("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme !== "dark"));
byId("print").addEventListener("click", () => print());
byId("more").addEventListener("click", () => {
  shownEntries += PAGE;
  showList();
});
addEventListener("hashchange", route);
addEventListener("resize", drawArcs);
addEventListener("keydown", (event) => {
  if (event.key === "Escape") closePanel();
});
if (document.fonts) document.fonts.ready.then(drawArcs);
route();
