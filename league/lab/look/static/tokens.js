"use strict";
// The tokens of a turn, coloured by what is chosen. What was stored is there at once; entropy and the ratio are computed
// from a snapshot's weights when they are chosen.
(() => {
  const { h } = look;
  const OVERLAYS = [["logprob", "log-prob (nats)"], ["mask", "mask: was it the only one allowed"], ["advantage", "advantage"], ["weight", "weight in the update"], ["entropy", "entropy (nats), by a snapshot"], ["ratio", "ratio of a snapshot to the sampler"]];
  const COMPUTED = ["entropy", "ratio"];

  // Returns a number from -1 to 1 for a colour.
  const strength = (overlay, value) => {
    if (typeof value !== "number") { return 0; }
    if (overlay === "logprob") { return -Math.min(-value / 3, 1); }
    if (overlay === "entropy") { return -Math.min(value / 3, 1); }
    if (overlay === "ratio") { return Math.max(-1, Math.min(1, Math.log(Math.max(value, 1e-6)) / 0.7)); }
    return Math.max(-1, Math.min(1, value));
  };

  const value = (overlay, token) => (overlay === "mask" ? (token.mask ? -0.5 : 0.5) : token[overlay]);
  const words = (overlay, token) => (overlay === "mask" ? (token.mask ? "the only one allowed" : "chosen") : look.signed(token[overlay]));

  const piece = (overlay, token) => {
    const text = token.text.replace(/\n/g, "⏎").replace(/^ /, "␣").replace(/^$/, "∅");
    const told = `${words(overlay, token)}`;
    const mark = h("span", { class: "token", tabindex: "0", title: `${text}: ${told}`, "aria-label": `${text}: ${told}` }, h("span", {}, text), h("small", {}, overlay === "mask" ? (token.mask ? "forced" : "free") : told));
    const size = strength(overlay, value(overlay, token));
    mark.style.setProperty("--heat", Math.abs(size).toFixed(2));
    mark.classList.add(size < 0 ? "cold" : "warm");
    return mark;
  };

  const shown = (place, found, overlay, extra) => {
    const tokens = found.tokens.map((token, at) => (extra ? { ...token, entropy: extra.entropy[at], ratio: extra.ratio[at] } : token));
    look.clear(place,
      extra ? h("p", { class: "soft" }, `by ${extra.by}${extra.entropy.some((each) => each === null) ? "; a token that was the only one allowed has no entropy" : ""}`) : null,
      h("p", { class: "line-of-tokens" }, tokens.map((token) => piece(overlay, token))));
  };

  look.tokens = async (place, named, turn, state) => {
    const under = h("div", { "aria-live": "polite" }, h("p", { class: "soft" }, "…"));
    const draw = async () => {
      try {
        const found = await look.ask("tokens", named);
        if (found.none) { look.clear(under, h("p", { class: "soft" }, found.none)); return; }
        shown(under, found, COMPUTED.includes(state.overlay) ? "logprob" : state.overlay, null);
        if (COMPUTED.includes(state.overlay)) {
          look.clear(under, h("p", { class: "soft" }, "Reading the weights …"));
          shown(under, found, state.overlay, await look.ask("scores", named));
        }
        under.append(h("details", {}, h("summary", {}, `prompt, ${found.prompt.length} tokens`), h("pre", {}, found.prompt.join(""))),
          look.alone ? null : h("p", {}, look.link(["ask"], "ask snapshots the same", named)));
      } catch (error) { look.clear(under, h("p", { class: "wrong" }, error.message)); }
    };
    look.clear(place, h("h2", {}, "Tokens"),
      look.choose("colour by", OVERLAYS, state.overlay, (overlay) => { state.overlay = overlay; state.redraw(); }, { "data-overlay": true }), under);
    await draw();
  };
})();
