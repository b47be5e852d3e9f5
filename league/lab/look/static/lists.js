"use strict";
// Lists of matches, and the turns that have to do with an alarm.
(() => {
  const { h } = look;
  look.matchLink = (row) => look.link(["match", row.iteration, row.index], `match ${row.index}`, {}, { class: "row" });

  look.matchList = (rows) => look.table(["match", "iteration", "players", "returns", "turns", "kept as"], rows.map((row) => [
    look.matchLink(row),
    look.link(["iteration", row.iteration], String(row.iteration)),
    row.players.map((player, seat) => [seat ? " – " : "", h("i", { class: `dot ${look.colour(seat)}` }), `${row.roles[seat]} ${player}`]),
    row.returns.map((value) => look.signed(value, 2)).join(", "),
    `${row.turns}${row.illegal ? `, ${row.illegal} illegal` : ""}${row.stale ? `, ${row.stale} updates old` : ""}`,
    row.kept_as.join(", "),
  ]), "Matches");

  const FILTERS = [["player", "with player"], ["against", "and player"], ["kept", "kept as"], ["game", "game"]];

  look.views.matches = async (main, { query }) => {
    const wanted = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== ""));
    const found = await look.ask("matches", wanted);
    const again = (name, value) => look.go(["matches"], { ...wanted, [name]: value });
    look.clear(main,
      h("h1", { tabindex: "-1" }, "Matches that are kept whole"),
      look.alone ? null : h("form", { class: "filters", submit: (event) => event.preventDefault() },
        FILTERS.map(([name, text]) => h("label", { class: "choose" }, h("span", {}, text), h("input", { value: wanted[name] || "", change: (event) => again(name, event.target.value), "data-find": name === "player" }))),
        look.choose("with a turn that is", [["", "any"], ["illegal", "illegal"], ["stale", "stale"], ["flat", "without advantage"]], wanted.has || "", (value) => again("has", value))),
      h("p", { class: "soft" }, `${found.total} matches${found.total > found.matches.length ? `, the newest ${found.matches.length} here` : ""}.`),
      look.matchList(found.matches));
  };

  look.views.alarm = async (main, { parts, query }) => {
    const found = await look.ask("alarm", { name: parts[0], ...(query.at ? { at: query.at } : {}) });
    look.clear(main,
      h("h1", { tabindex: "-1" }, `Alarm ${found.name}`),
      found.means ? h("p", {}, found.means) : null,
      h("p", {}, found.times.length ? `It rang in ${found.times.length} iterations: ` : "It has not rung.",
        found.times.slice(-20).map((at) => [look.link(["iteration", at], String(at)), " "])),
      h("p", { class: "soft" }, Object.entries(found.settings).map(([name, value]) => `${name} = ${value}`).join(", ")),
      h("h2", {}, `Turns up to iteration ${found.at}`),
      h("p", { class: "soft" }, `An alarm judges every turn of an iteration; these are kept ones, by: ${found.by}.`),
      look.table(["turn", "who", "reply", "read as", "advantage"], found.turns.map((row) => [
        look.link(["match", row.iteration, row.index, ...(row.path ? [row.path] : [])], `match ${row.index}, turn ${row.turn}`, { step: row.turn }, { class: "row" }),
        `${row.role} ${row.player}`, h("q", { class: "reply" }, row.reply), row.action === null ? h("b", { class: "bad" }, "illegal") : row.action, look.signed(row.advantage)]), "Turns"));
  };
})();
