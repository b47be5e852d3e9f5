"use strict";
// All matches, kept whole or not: an iteration's returns and groups, a pair's matches, who beats whom.
(() => {
  const { h } = look;

  const row = (match) => [
    match.kept ? look.link(["match", match.iteration, match.index], `match ${match.index}`, {}, { class: "row" }) : `match ${match.index}`,
    look.link(["iteration", match.iteration], String(match.iteration)),
    match.players.map((player, seat) => `${seat ? " – " : ""}${match.roles[seat]} ${player}`).join(""),
    match.returns.map((value) => look.signed(value, 2)).join(", "),
    match.rule, match.kept ? "kept whole" : "",
  ];
  look.resultTable = (matches) => look.table(["match", "iteration", "players", "returns", "drawn by", ""], matches.map(row), "Matches");

  look.iterationResults = async (place, at, game) => {
    let found;
    try { found = await look.ask("results", game ? { at, game } : { at }); }
    catch (error) { look.clear(place, look.alone ? null : h("p", { class: "soft" }, error.message)); return; }
    const opened = h("div", { "aria-live": "polite" });
    const open = (histogram) => (number) => {
      const bin = histogram.bins[number];
      look.clear(opened, h("h3", {}, `${histogram.role}, ${look.short(bin.low)}${bin.low === bin.high ? "" : ` to ${look.short(bin.high)}`}: ${bin.count} matches`), look.resultTable(bin.matches));
    };
    look.clear(place,
      h("h2", {}, `All ${found.total} matches of ${found.game}`),
      found.games.length > 1 ? look.choose("game", found.games.map((name) => [name, name]), found.game, (name) => look.iterationResults(place, at, name)) : null,
      h("p", { class: "soft" }, "Returns by role; a bar opens its matches."),
      h("div", { class: "charts" }, found.histograms.map((each) => h("figure", {}, h("figcaption", {}, each.role), look.histogram(`returns of ${each.role}`, each.bins, open(each))))),
      opened,
      found.groups.length ? h("details", {}, h("summary", {}, `${found.number_of_groups} deals that were played several times`),
        look.table(["deal", "matches", `returns of ${found.histograms[0].role}`], found.groups.map((each) => [
          look.link(["group", found.game, at, each.deal], each.deal, {}, { class: "row" }), String(each.size), each.first.map((value) => look.signed(value, 2)).join(", ")]), "Groups")) : null);
  };

  const column = async (match) => {
    const box = h("figure", { class: "member" }, h("figcaption", {},
      match.kept ? look.link(["match", match.iteration, match.index], `match ${match.index}`, {}, { class: "row" }) : `match ${match.index}`),
    look.seats(match.players, match.roles, match.returns));
    if (match.kept) {
      const whole = await look.ask("match", { at: match.iteration, index: match.index, path: "" });
      box.append(h("ol", { class: "talk" }, whole.steps.map((turn) => h("li", { class: `bubble ${look.colour(turn.seat)}` }, h("b", {}, turn.role), " ", h("span", { class: "reply" }, turn.reply), h("span", { class: "soft" }, ` ${look.signed(turn.advantage, 2)}`)))));
    } else { box.append(h("p", { class: "soft" }, "only its result is stored")); }
    return box;
  };

  look.views.group = async (main, { parts }) => {
    const [game, at, deal] = parts;
    const found = await look.ask("group", { game, at, deal });
    const columns = h("div", { class: "members" });
    look.clear(main, h("h1", { tabindex: "-1" }, `One deal, ${found.matches.length} matches`),
      h("p", {}, `${game}, deal ${deal}, `, look.link(["iteration", at], `iteration ${at}`), "."), columns);
    look.clear(columns, await Promise.all(found.matches.slice(0, 16).map(column)));
    if (found.matches.length > 16) { main.append(look.resultTable(found.matches.slice(16))); }
  };

  look.views.pair = async (main, { parts }) => {
    const [game, player, against] = parts;
    const [found, kept] = await Promise.all([look.ask("pair", { game, player, against }), look.ask("matches", { game, player, against }).catch(() => ({ matches: [] }))]);
    look.clear(main,
      h("h1", { tabindex: "-1" }, `${player} against ${against}`),
      h("p", {}, `${found.total} matches of ${game}. The mean return of ${player}, by iteration:`),
      h("figure", { class: "curve" }, look.lineChart(`mean return of ${player}`, [{ label: player, ...found.mean }], { open: (at) => look.go(["iteration", at]) })),
      kept.matches.length ? [h("h2", {}, "Kept whole"), look.matchList(kept.matches)] : h("p", { class: "soft" }, "None of them is kept whole."),
      h("h2", {}, "The newest results"), look.resultTable(found.matches));
  };

  const cell = (found, a, b) => {
    const [row_, column_] = [found.players[a], found.players[b]], value = found.cells[a][b];
    if (!value) { return h("td", { class: "never" }, ""); }
    const [margin, error, matches] = value;
    const most = Math.max(...found.cells.flat().filter(Boolean).map(([each]) => Math.abs(each)), 1e-9);
    const box = h("td", { class: margin < 0 ? "cold" : "warm" }, look.link(["pair", found.game, row_, column_], look.signed(margin, 2), {}, {
      "aria-label": `${row_} against ${column_}: ${look.signed(margin, 2)}${error === null ? "" : ` ± ${look.plain(error, 2)}`}, ${matches} matches`, title: `${row_} against ${column_}: ${look.signed(margin)} ± ${look.plain(error)}, ${matches} matches`, "data-cell": `${a} ${b}`, class: "row" }));
    box.style.setProperty("--heat", (Math.abs(margin) / most).toFixed(2));
    return box;
  };

  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const walk = (event) => {
    const from = event.target.dataset && event.target.dataset.cell;
    if (!from || !(event.key in moves)) { return; }
    const table = event.currentTarget;
    let [a, b] = from.split(" ").map(Number);
    const [down, right] = moves[event.key];
    for (let tries = 0; tries < 200; tries += 1) {
      a += down; b += right;
      const next = table.querySelector(`[data-cell="${a} ${b}"]`);
      if (next) { next.focus(); break; }
    }
    event.preventDefault();
    event.stopPropagation();
  };

  look.views.matrix = async (main, { parts }) => {
    const found = await look.ask("matrix", parts[0] ? { game: parts[0] } : look.alone ? { game: (await look.ask("overview")).games[0] } : {});
    look.clear(main,
      h("h1", { tabindex: "-1" }, `Who beats whom in ${found.game}`),
      found.games.length > 1 ? look.choose("game", found.games.map((name) => [name, name]), found.game, (name) => look.go(["matrix", name])) : null,
      h("p", { class: "soft" }, "Half the difference of mean returns, row against column, in all matches of both. A cell opens their matches; arrow keys walk.",
        found.left_out ? ` ${found.left_out} players are left out.` : ""),
      h("div", { class: "scroll" }, h("table", { class: "matrix", keydown: walk },
        h("thead", {}, h("tr", {}, h("td", {}), found.players.map((name) => h("th", { scope: "col" }, h("span", {}, name))))),
        h("tbody", {}, found.players.map((name, a) => h("tr", {}, h("th", { scope: "row" }, name), found.players.map((_, b) => cell(found, a, b))))))));
  };
})();
