"use strict";
// One match, turn by turn: the board, what was said, and what the update made of it. Private facts are shown to the eyes
// that the reader asks for: nobody's (what all see), a seat's, or all at once.
(() => {
  const { h } = look;
  const eyesOf = (match) => [["all", "what everybody sees"], ...match.roles.map((role, seat) => [String(seat), `${role}'s eyes`]), ["god", "everything"]];
  const sees = (eyes, seat) => eyes === "god" || eyes === String(seat);
  const played = (turn) => (turn.action === null ? "illegal reply" : turn.tool ? `calls ${turn.action}` : `plays ${turn.action}`);

  const publicText = (match, at) => {
    const views = match.views[at], open = match.public[at];
    return views && open ? views[0].split("\n").filter((line) => open.includes(line)).join("\n") : null;
  };

  // What is seen before turn `at` (from 0), or at the end.
  const texts = (match, at, eyes) => {
    const views = match.views[at], turn = match.steps[at];
    if (!views) {
      return turn && sees(eyes, turn.seat) ? [[`${turn.role} sees`, turn.observation]] : [["", "What the seats see is known only where a game can be replayed. Choose the view of the seat to act."]];
    }
    const seats = match.roles.map((role, seat) => seat).filter((seat) => sees(eyes, seat));
    const open = publicText(match, at);
    return seats.length ? seats.map((seat) => [`${match.roles[seat]} sees`, views[seat]]) : [["all see", open || "nothing that is known to all"]];
  };

  const position = (match, at, eyes) => h("section", { class: "position", "aria-label": "Position" },
    look.board(match.boards[at], eyes),
    texts(match, at, eyes).map(([who, text]) => h("figure", { class: "seen" }, h("figcaption", { class: "soft" }, who), h("pre", {}, text))));

  const bubble = (match, turn, number, at, eyes) => {
    const inside = turn.reasoning && sees(eyes, turn.seat);
    const said = turn.reasoning && !inside ? turn.action ?? turn.reply.slice(turn.reply.indexOf(turn.reasoning) + turn.reasoning.length) : turn.reply;
    return h("li", { class: `bubble ${look.colour(turn.seat)} ${number === at ? "now" : ""} ${turn.action === null ? "illegal" : ""}`, "aria-current": number === at ? "step" : null },
      h("p", { class: "who" }, h("i", { class: `dot ${look.colour(turn.seat)}` }), h("b", {}, turn.role), ` ${turn.player}`, h("span", { class: "soft" }, ` turn ${number + 1}`)),
      inside && !turn.reply.startsWith(said) ? h("p", { class: "thought" }, turn.reasoning) : null,
      h("p", { class: "reply" }, said),
      turn.action === said ? null : h("p", { class: "soft" }, played(turn)));
  };

  const facts = (match, turn, number) => h("dl", { class: "facts" }, [
    ["advantage", look.signed(turn.advantage)],
    ["exact advantage", match.no_exact ? "–" : look.signed(turn.exact)],
    ["log-prob", turn.logprob === null ? "–" : `${look.plain(turn.logprob)} nats, ${turn.tokens} tokens`],
    ["reward", look.signed(turn.reward, 2)],
    ...turn.named.map(([name, value]) => [name, look.signed(value, 2)]),
    ["legal", turn.legal.length ? turn.legal.slice(0, 20).join(", ") + (turn.legal.length > 20 ? " …" : "") : turn.form || "free text"],
    ["weights", turn.version === null ? turn.snapshot || "none" : `${turn.snapshot}, ${turn.version} updates`],
  ].map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  turn.nothing ? h("div", { class: "why" }, h("dt", {}, "weighs nothing"), h("dd", {}, turn.nothing)) : null,
  match.no_exact ? h("div", { class: "why" }, h("dt", {}, "no exact advantage"), h("dd", {}, match.no_exact)) : null);

  const overview = (match, go) => h("details", {}, h("summary", {}, "All turns"),
    look.table(["turn", "who", "plays", "log-prob", "advantage", "exact", "weighs nothing"], match.steps.map((turn, number) => [
      h("button", { type: "button", class: "plain", click: () => go(number) }, String(number + 1)), `${turn.role} ${turn.player}`, turn.action === null ? h("b", { class: "bad" }, "illegal") : turn.action,
      look.plain(turn.logprob), look.signed(turn.advantage), look.signed(turn.exact), turn.nothing]), "All turns"));

  const beliefs = (match) => match.beliefs.map((probe) => h("figure", { class: "curve" }, h("figcaption", {}, `belief in the truth: ${probe.probe}`), look.lineChart(probe.probe, probe.lines, { range: [0, 1], what: "turn" })));

  const head = (match, at, index) => [
    h("h1", { tabindex: "-1" }, `Match ${index}${match.path ? `, submatch ${match.path}` : ""}: ${match.game}`),
    look.seats(match.players, match.roles, match.returns, match.trained),
    h("p", { class: "soft" },
      look.link(["iteration", at], `iteration ${at}`), match.rule ? `, drawn by ${match.rule}` : "", match.kept_as.length ? `, kept as ${match.kept_as.join(", ")}` : "", ", ",
      look.link(["group", match.game, at, match.deal], "its deal, played by others"), match.ending ? `. ${match.ending}.` : "."),
    match.task ? h("p", {}, "Opened with: ", h("q", {}, match.task)) : null,
    match.outcome ? h("p", {}, "Told its parent: ", h("q", {}, match.outcome)) : null,
    match.path ? h("p", {}, look.link(["match", at, index, ...(match.path.includes(".") ? [match.path.replace(/\.\d+$/, "")] : [])], "to the match that opened it")) : null,
  ];

  const controls = (state, go, draw) => h("div", { class: "controls" },
    [["First", 0, "Home"], ["← Back", state.step - 1, "ArrowLeft"], ["On →", state.step + 1, "ArrowRight"], ["End", Infinity, "End"]].map(([text, to, key]) => h("button", { type: "button", "data-key": key, click: () => go(to) }, text)),
    h("output", { class: "place" }, state.step >= state.match.steps.length ? "the end" : `turn ${state.step + 1} of ${state.match.steps.length}`),
    look.choose("see", eyesOf(state.match), state.eyes, (eyes) => { state.eyes = eyes; draw(); look.say(`now with ${eyesOf(state.match).find(([value]) => value === eyes)[1]}`); }, { "data-eyes": true }));

  const oneStep = (state, go, draw) => {
    const { match, step, eyes } = state, over = step >= match.steps.length, turn = match.steps[step];
    const tokens = h("section", { class: "tokens", "aria-label": "Tokens" });
    const said = h("ol", { class: "talk" }, match.steps.slice(0, step + 1).map((each, number) => bubble(match, each, number, step, eyes)));
    look.clear(state.place, controls(state, go, draw),
      h("div", { class: "beside" }, position(match, step, eyes), h("section", { "aria-label": "What was said" }, said)),
      over ? h("p", {}, "The match is over: ", match.returns.map((value, seat) => `${match.roles[seat]} ${look.signed(value, 2)}`).join(", "), ".") : [facts(match, turn), tokens]);
    said.scrollTop = said.scrollHeight;
    if (!over) { look.tokens(tokens, { at: state.at, index: state.index, path: match.path, turn: step + 1 }, turn, state); }
  };

  look.views.match = async (main, { parts, query, mark }) => {
    const [at, index, path = ""] = parts;
    const match = await look.ask("match", { at, index, path });
    const state = { match, at, index, eyes: query.see || "all", step: 0, overlay: query.overlay || "logprob", place: h("div", { class: "step" }) };
    const draw = () => {
      oneStep(state, go, draw);
      mark(["match", at, index, ...(path ? [path] : [])], { step: state.step + 1, see: state.eyes === "all" ? "" : state.eyes, overlay: state.overlay === "logprob" ? "" : state.overlay });
    };
    const go = (to) => { state.step = Math.max(0, Math.min(match.steps.length, to)); draw(); look.say(state.step < match.steps.length ? `turn ${state.step + 1}: ${match.steps[state.step].role} ${played(match.steps[state.step])}` : "the end"); };
    state.step = Math.max(0, Math.min(match.steps.length, Number(query.step || 1) - 1));
    state.redraw = draw;
    look.clear(main, head(match, at, index),
      match.submatches.length ? h("p", {}, "It opened: ", match.submatches.map((each) => [look.link(["match", at, index, each.path], each.task || `${each.game} ${each.path}`, {}, { class: "row" }), " "])) : null,
      state.place, overview(match, go), beliefs(match));
    draw();
  };
})();
