"use strict";
// Addresses, keys and the frame.
(() => {
  const { h } = look;
  const main = document.getElementById("main"), help = document.getElementById("help");
  const PLACES = [["c", ["curves"], "Curves"], ["w", ["matrix"], "Who beats whom"], ["s", ["tree"], "Snapshots"], ["t", ["strategy"], "Strategies"], ["m", ["matches"], "Matches"], ["a", ["ask"], "Ask it"]];
  const LIVE = ["curves", "iteration", "tree", "matches"]; // views that are drawn again when the run has gone on
  const KEYS = [["? ", "this list"], ["/", "to what can be searched"], ["j k", "next and previous row of a list"], ["Enter", "open"], ["← →", "back and on: turns, iterations, snapshots; in a chart its points"], ["Home End", "first turn, the end"], ["v", "whose eyes a match is seen with"], ["o", "what tokens are coloured by"], ["Alt ←", "to the view before"], ...PLACES.map(([key, , name]) => [key, name])];
  let serial = 0, address = null; // of the view that is shown or on its way

  // Returns how a view changes its own address without being drawn again, so that it can be sent as it is. Where another
  // view was asked for meanwhile, even if its drawing has not begun, the address is no longer this one's to change.
  const marker = (own) => (parts, query = {}) => {
    if (own !== serial || location.hash !== address) { return; }
    history.replaceState(null, "", look.address(parts, query));
    address = location.hash;
  };

  const draw = async (focus) => {
    const place = look.where(), view = look.views[place.name], own = (serial += 1);
    address = location.hash;
    document.querySelectorAll("#places a").forEach((link) => { link.toggleAttribute("aria-current", link.dataset.view === place.name); });
    const fresh = h("div", {});
    try {
      if (!view) { throw new Error(`There is no view ${place.name}.`); }
      await view(fresh, { ...place, mark: marker(own) });
    } catch (error) {
      look.clear(fresh, h("h1", { tabindex: "-1" }, "Not here"), h("p", { class: "wrong" }, error.message));
    }
    if (own !== serial) { return; } // another view was asked for meanwhile
    main.replaceChildren(fresh);
    const title = main.querySelector("h1");
    document.title = `${title ? title.textContent : ""} – league look`;
    if (focus && title) { title.focus({ preventScroll: true }); window.scrollTo(0, 0); }
    document.body.dataset.drawn = location.hash;
  };

  const rows = () => [...main.querySelectorAll("a.row")].filter((row) => row.getClientRects().length);
  const step = (by) => {
    const all = rows(), at = all.indexOf(document.activeElement);
    const next = all[at === -1 ? (by > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, at + by))];
    if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
  };
  const turnOn = (selector) => {
    const select = main.querySelector(selector);
    if (select) { select.selectedIndex = (select.selectedIndex + 1) % select.options.length; select.dispatchEvent(new Event("change")); }
  };
  const press = (key) => {
    const control = [...main.querySelectorAll("[data-key]")].find((each) => each.dataset.key === key);
    if (control) { control.click(); }
    return Boolean(control);
  };
  const acts = {
    "?": () => { help.showModal(); },
    "/": () => { const finder = main.querySelector("[data-find]"); if (finder) { finder.focus(); finder.select(); } },
    j: () => step(1), k: () => step(-1), v: () => turnOn("[data-eyes]"), o: () => turnOn("[data-overlay]"),
    ...Object.fromEntries(PLACES.map(([key, parts]) => [key, () => look.go(parts)])),
  };

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, dialog");
    if (event.key === "Escape" && typing && !event.target.closest("dialog")) { event.target.blur(); return; }
    if (event.altKey || event.ctrlKey || event.metaKey || typing) { return; }
    if (press(event.key)) { event.preventDefault(); return; }
    if (event.key in acts) { acts[event.key](); event.preventDefault(); }
  });

  look.clear(document.getElementById("places"), PLACES.filter(([, [name]]) => !(look.alone && name === "ask")).map(([key, parts, name]) => look.link(parts, name, {}, { "data-view": parts[0], title: `key ${key}` })),
    h("button", { type: "button", click: () => help.showModal(), "aria-label": "Keys" }, "?"));
  look.clear(help, h("h2", { id: "help-title" }, "Keys"), h("dl", {}, KEYS.map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)))), h("form", { method: "dialog" }, h("button", {}, "Close")));

  window.addEventListener("hashchange", () => draw(true));
  look.ask("overview").then((run) => {
    document.getElementById("run").textContent = run.name;
    document.getElementById("state").textContent = look.alone ? `as it was at iteration ${run.done}` : `iteration ${run.done} of ${run.iterations}`;
  }).catch((error) => { document.getElementById("state").textContent = error.message; });
  look.watch((done) => {
    document.getElementById("state").textContent = `iteration ${done}, in training`;
    if (LIVE.includes(look.where().name) && !main.contains(document.activeElement)) { draw(false); }
  });
  draw(false);
})();
