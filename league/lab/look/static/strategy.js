"use strict";
// Strategies in games that are small enough: found by typing, over the run, beside an equilibrium; two side by side.
(() => {
  const { h } = look;
  const bar = (value, at) => { const filled = h("i", { class: `share ${look.colour(at)}` }); filled.style.width = `${(value * 100).toFixed(1)}%`; return h("span", { class: "shares" }, filled); };
  const oneLine = (text) => text.replace(/\n/g, " · ");

  const chart = (state, found) => {
    const lines = state.actions.map((action, number) => ({ label: action, x: found.steps, y: state.lines[number] }));
    const some = lines.length === 2 ? lines.slice(1) : lines; // of two actions one says it all
    const known = state.bands[1] || (state.equilibrium ? [state.equilibrium[1], state.equilibrium[1]] : null);
    const bands = some.length === 1 && known ? [known] : [];
    return h("figure", { class: "curve state" },
      h("figcaption", {}, h("b", {}, state.title || oneLine(state.text)), state.title ? h("span", { class: "soft" }, ` ${oneLine(state.text)}`) : null),
      look.lineChart(`probability of ${some.map((line) => line.label).join(", ")} at ${oneLine(state.text)}`, some.slice(0, 6), { range: [0, 1], bands, open: (at) => look.go(["iteration", at]) }),
      h("p", {}, state.actions.map((action, number) => {
        const now = state.lines[number][state.lines[number].length - 1], band = state.bands[number];
        const best = band ? (band[0] === band[1] ? look.plain(band[0], 2) : `${look.plain(band[0], 2)} to ${look.plain(band[1], 2)}`) : state.equilibrium ? look.plain(state.equilibrium[number], 2) : null;
        return h("span", { class: "now" }, `${action} ${look.plain(now, 2)}`, best ? h("span", { class: "soft" }, ` (equilibrium ${best})`) : null);
      })));
  };

  look.views.strategy = async (main, { parts, query, mark }) => {
    const overview = await look.ask("overview");
    const game = parts[0] || overview.games[0];
    const state = { find: query.find || "", policy: query.policy || "" };
    const place = h("div", { class: "charts", "aria-live": "polite" }), count = h("p", { class: "soft" });
    const draw = async () => {
      try {
        const found = look.alone ? searched(await look.ask("states", { game, find: "", policy: "" }), state.find) : await look.ask("states", { game, ...state });
        look.clear(place, found.states.map((each) => chart(each, found)));
        count.textContent = `${found.total} of ${found.all} information states; ${found.players.length} line-ups from ${found.players[0]} to ${found.players[found.players.length - 1]}.`;
        mark(["strategy", game], state);
        return found;
      } catch (error) { look.clear(place, h("p", { class: "wrong" }, error.message)); return null; }
    };
    const finder = h("input", { type: "search", "data-find": true, value: state.find, placeholder: "what the seat sees: Q bet", "aria-label": "Find information states" });
    finder.addEventListener("input", () => { clearTimeout(finder.waits); finder.waits = setTimeout(() => { state.find = finder.value; draw(); }, 200); });
    const chooser = h("div", { class: "filters" });
    look.clear(main, h("h1", { tabindex: "-1" }, `Strategies in ${game}`),
      overview.games.length > 1 ? look.choose("game", overview.games.map((name) => [name, name]), game, (name) => look.go(["strategy", name])) : null,
      finder, chooser, count, place);
    const found = await draw();
    if (found) {
      const last = found.players[found.players.length - 1];
      look.clear(chooser,
        look.alone ? null : look.choose("whose", [["", "the run's roles"], ...found.policies.map((name) => [name, name])], state.policy, (policy) => { state.policy = policy; draw(); }),
        look.link(["compare", game, last, found.players[0]], "first and last side by side"), " ", look.link(["compare", game, last, "equilibrium"], "last beside the equilibrium"));
    }
  };

  const searched = (found, find) => {
    const words = find.toLowerCase().split(/\s+/).filter(Boolean);
    return { ...found, states: found.states.filter((each) => words.every((word) => each.text.toLowerCase().includes(word))) };
  };

  const differences = (found) => look.table(["what the seat sees", "plays", found.a, found.b, "how often there", "worth to who plays as the first"], found.states.flatMap((state) => state.actions.map((action, number) => [
    number ? "" : oneLine(state.text), action,
    [bar(state.a[number], 0), ` ${look.plain(state.a[number], 2)}`], [bar(state.b[number], 1), ` ${look.plain(state.b[number], 2)}`],
    number ? "" : look.plain(state.visits, 3), number ? "" : h("b", { class: state.cost > 0 ? "good" : state.cost < 0 ? "bad" : "" }, look.signed(state.cost, 4))])), `${found.a} beside ${found.b}`, { class: "numbers" });

  look.comparison = async (place, game, a, b) => {
    try {
      const found = await look.ask("compare", { game, a, b });
      look.clear(place, h("p", {}, found.total ? `In ${game} they differ at ${found.total} information states; first where ${b} loses most by not playing like ${a}, last where ${a} would lose by playing like ${b}.` : `In ${game} they play the same.`), found.total ? differences(found) : null,
        h("p", {}, look.link(["compare", game, a, b], "this comparison by itself")));
    } catch (error) { look.clear(place, h("p", { class: "soft" }, error.message)); }
  };

  look.views.compare = async (main, { parts }) => {
    const [game, a, b] = parts, tree = await look.ask("tree"), place = h("div", {});
    const names = [...tree.snapshots.map((each) => each.id), "equilibrium"].map((name) => [name, name]);
    const both = (name) => (names.some(([known]) => known === name) ? names : [[name, name], ...names]);
    look.clear(main, h("h1", { tabindex: "-1" }, "Two strategies side by side"),
      h("div", { class: "filters" }, look.choose("first", both(a), a, (name) => look.go(["compare", game, name, b])), look.choose("second", both(b), b, (name) => look.go(["compare", game, a, name]))), place);
    await look.comparison(place, game, a, b);
  };
})();
