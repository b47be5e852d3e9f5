"use strict";
// The snapshots as a tree, a lane for each policy; and one snapshot.
(() => {
  const { h, svg } = look;
  const HOLLOW = ["reset", "response", "exploiter", "distilled", "merged", "crossed"];

  const drawing = (snapshots) => {
    const policies = [...new Set(snapshots.map((each) => each.policy))], last = Math.max(1, ...snapshots.map((each) => each.step));
    const left = 110, wide = 900, lane = 54;
    const place = Object.fromEntries(snapshots.map((each) => [each.id, [left + (each.step / last) * (wide - left - 14), 26 + policies.indexOf(each.policy) * lane]]));
    const edge = (each, parent) => {
      const [x0, y0] = place[parent], [x1, y1] = place[each.id];
      return svg("path", { class: `edge ${look.colour(policies.indexOf(each.policy))}`, d: y0 === y1 && each.origin === "trained" ? `M${x0} ${y0}L${x1} ${y1}` : `M${x0} ${y0}C${x0} ${(y0 + y1) / 2 - 18} ${x1} ${(y0 + y1) / 2 - 18} ${x1} ${y1}` });
    };
    const node = (each) => {
      const [x, y] = place[each.id];
      return svg("a", { href: look.address(["snapshot", each.id]), class: "row", "aria-label": `${each.id}, ${each.how}${each.parent ? `, from ${each.parent}` : ""}` },
        svg("title", {}, `${each.id}: ${each.how}`),
        svg("circle", { class: "touch", cx: x, cy: y, r: 9 }),
        svg("circle", { class: `node ${look.colour(policies.indexOf(each.policy))} ${HOLLOW.includes(each.origin) ? "hollow" : ""}`, cx: x, cy: y, r: 4.5 }));
    };
    return h("div", { class: "scroll" }, svg("svg", { class: "tree", viewBox: `0 0 ${wide} ${policies.length * lane + 10}`, role: "group", "aria-label": "snapshots over the run" },
      policies.map((name, number) => svg("text", { x: 4, y: 30 + number * lane }, name)),
      snapshots.flatMap((each) => each.parents.filter((parent) => parent in place).map((parent) => edge(each, parent))),
      snapshots.map(node)));
  };

  const rating = (each) => Object.entries(each.ratings).map(([game, [mean, spread]]) => `${game} ${look.plain(mean, 1)} ± ${look.plain(2 * spread, 1)}`).join(", ");

  look.views.tree = async (main) => {
    const found = await look.ask("tree");
    look.clear(main, h("h1", { tabindex: "-1" }, `${found.snapshots.length} snapshots`),
      found.snapshots.length ? drawing(found.snapshots) : h("p", {}, "None yet."),
      look.table(["snapshot", "from", "how", "rating"], found.snapshots.slice().reverse().map((each) => [
        look.link(["snapshot", each.id], each.id, {}, { class: "row" }), each.parents.map((parent, number) => [number ? ", " : "", look.link(["snapshot", parent], parent)]), each.how, rating(each)]), "Snapshots"));
  };

  look.views.snapshot = async (main, { parts }) => {
    const [id] = parts;
    const found = await look.ask("snapshot", { id });
    const kept = await look.ask("matches", { player: id }).catch(() => ({ matches: [], total: 0 }));
    const differences = found.parent ? found.games.map((game) => { const place = h("div", {}); look.comparison(place, game, id, found.parent); return place; }) : [];
    const at = found.siblings.indexOf(id);
    look.clear(main,
      h("h1", { tabindex: "-1" }, found.id),
      h("p", { class: "controls" },
        at > 0 ? look.link(["snapshot", found.siblings[at - 1]], "← older", {}, { "data-key": "ArrowLeft" }) : null,
        at < found.siblings.length - 1 ? look.link(["snapshot", found.siblings[at + 1]], "newer →", {}, { "data-key": "ArrowRight" }) : null,
        look.link(["iteration", found.step], `iteration ${found.step}`),
        found.games.map((game) => look.link(["strategy", game], `strategies in ${game}`, { policy: found.policy })),
        look.alone ? null : look.link(["ask"], "play against it", { snapshot: id })),
      h("p", {}, `${found.how}${found.parents.length ? " from " : "."}`, found.parents.map((parent, number) => [number ? ", " : "", look.link(["snapshot", parent], parent)]),
        found.children.length ? ["; led to ", found.children.map((child, number) => [number ? ", " : "", look.link(["snapshot", child], child)])] : null, "."),
      rating(found) ? h("p", {}, `Rating (random has 25): ${rating(found)}.`) : null,
      Object.entries(found.mixture).map(([game, weights]) => h("p", {}, `In the mixture of ${game}: ${weights.map((weight) => look.plain(weight, 2)).join(", ")} by seat.`)),
      differences.length ? [h("h2", {}, `How it differs from its parent, ${found.parent}`), differences] : null,
      h("h2", {}, `Its ${kept.total} kept matches as an opponent`),
      kept.matches.length ? look.matchList(kept.matches.slice(0, 50)) : h("p", { class: "soft" }, "None is kept whole."),
      look.alone ? null : h("p", {}, look.link(["matches"], `matches of ${found.policy} while it trained`, { player: found.policy })));
  };
})();
