"use strict";
// Ask it: play a match against a snapshot, or put a recorded prompt to several snapshots.
(() => {
  const { h } = look;

  const several = (place, query, snapshots) => {
    const newest = snapshots.slice(-3).map((each) => each.id);
    const chosen = [0, 1, 2].map((number) => newest[number] || newest[newest.length - 1]);
    const answers = h("div", { "aria-live": "polite" });
    const ask = async () => {
      look.clear(answers, h("p", { class: "soft" }, "Reading the weights …"));
      try {
        const found = await look.post("ask", { ...query, snapshots: [...new Set(chosen)] });
        look.clear(answers, look.table(["snapshot", ...(found.choices || ["replies"])], found.answers.map((row) => [
          row.snapshot, ...(found.choices ? row.probabilities.map((value) => look.plain(value, 3)) : [row.replies.map((reply) => h("p", { class: "reply" }, reply))])]), "Answers"));
      } catch (error) { look.clear(answers, h("p", { class: "wrong" }, error.message)); }
    };
    look.clear(place, h("h2", {}, "The same prompt to three snapshots"),
      h("p", {}, look.link(["match", query.at, query.index, ...(query.path ? [query.path] : [])], `match ${query.index}, turn ${query.turn}`, { step: query.turn })),
      h("div", { class: "filters" }, chosen.map((id, number) => look.choose(`${number + 1}`, snapshots.map((each) => [each.id, each.id]), id, (name) => { chosen[number] = name; })),
        h("button", { type: "button", click: ask }, "Ask")), answers);
  };

  const play = (place, snapshots, games, wanted) => {
    const state = { snapshot: wanted || snapshots[snapshots.length - 1].id, game: games[0], seat: 0 };
    const board = h("section", { "aria-live": "polite" });
    const show = (found) => {
      const say = h("input", { "aria-label": "Your words" });
      const move = async (text) => {
        try { show(await look.post("move", { match: found.match, text })); }
        catch (error) { board.append(h("p", { class: "wrong" }, error.message)); }
      };
      look.clear(board,
        h("pre", {}, found.observation || ""),
        found.over ? h("p", {}, `It is over: you have ${look.signed(found.returns[state.seat], 2)}.`) : null,
        found.over ? h("ol", { class: "talk" }, found.turns.map((turn) => h("li", { class: `bubble ${look.colour(turn.seat)}` }, h("b", {}, turn.role), " ", h("span", { class: "reply" }, turn.reply)))) : null,
        found.over ? null : found.legal.length ? h("p", { class: "controls" }, found.legal.map((action, number) => h("button", { type: "button", class: "move", "data-key": number < 9 ? String(number + 1) : null, click: () => move(action) }, action)))
          : h("form", { class: "filters", submit: (event) => { event.preventDefault(); move(say.value); } }, say, h("button", {}, "Say")));
      const first = board.querySelector(".move, input");
      if (first) { first.focus(); }
    };
    const begin = async () => {
      look.clear(board, h("p", { class: "soft" }, "Reading the weights …"));
      try { show(await look.post("begin", state)); }
      catch (error) { look.clear(board, h("p", { class: "wrong" }, error.message)); }
    };
    look.clear(place, h("h2", {}, "Play against a snapshot"),
      h("div", { class: "filters" },
        look.choose("snapshot", snapshots.map((each) => [each.id, each.id]), state.snapshot, (id) => { state.snapshot = id; }),
        look.choose("game", games.map((name) => [name, name]), state.game, (name) => { state.game = name; }),
        h("label", { class: "choose" }, h("span", {}, "your seat"), h("input", { type: "number", min: 1, value: 1, change: (event) => { state.seat = Number(event.target.value) - 1; } })),
        h("button", { type: "button", click: begin }, "Begin")),
      board);
  };

  look.views.ask = async (main, { query }) => {
    if (look.alone) { throw new Error("A file cannot play: this needs the server, league look RUN."); }
    const found = await look.ask("tree"), asked = h("section", {}), played = h("section", {});
    look.clear(main, h("h1", { tabindex: "-1" }, "Ask it"), asked, played);
    if (!found.snapshots.length) { main.append(h("p", {}, "There is no snapshot yet.")); return; }
    const { snapshot, ...named } = query;
    if (named.index) { several(asked, named, found.snapshots); }
    else { look.clear(asked, h("p", { class: "soft" }, "To put one prompt to several snapshots, open a turn of a match and choose “ask snapshots the same”.")); }
    play(played, found.snapshots, found.games, snapshot);
  };
})();
