"use strict";
// The first view: curves by question. A point opens its iteration.
(() => {
  const { h } = look;
  const toIteration = (at) => look.go(["iteration", at]);

  const chart = (row, points) => h("figure", { class: "curve", "data-name": row.name },
    h("figcaption", {}, h("b", {}, row.name), row.note ? h("span", { class: "soft" }, ` ${row.note}`) : null),
    look.lineChart(row.name, row.lines.map((name, number) => ({ label: row.labels[number] || name, ...(points[name] || { x: [], y: [] }) })), { open: toIteration }));

  const group = (each, points, opened) => {
    const charts = h("div", { class: "charts" });
    let begun = false;
    const fill = async () => {
      if (begun) { return; }
      begun = true;
      const missing = each.charts.filter((row) => row.lines.some((name) => !(name in points)));
      try {
        const answers = await Promise.all(missing.map((row) => look.ask("curves", { names: row.lines.join("\n") })));
        const all = Object.assign({}, points, ...answers.map((answer) => answer.points));
        look.clear(charts, each.charts.map((row) => chart(row, all)));
      } catch (error) { look.clear(charts, h("p", { class: "wrong" }, error.message)); }
    };
    const details = h("details", { open: opened, toggle: () => { if (details.open) { fill(); } } }, h("summary", {}, h("h2", {}, each.title), h("span", { class: "soft" }, ` ${each.charts.length} charts`)), charts);
    if (opened) { fill(); }
    return details;
  };

  look.views.curves = async (main, { query, mark }) => {
    const run = await look.ask("overview");
    const finder = h("input", { type: "search", placeholder: "find a curve: exploitability, entropy …", "aria-label": "Find a curve", value: query.find || "", "data-find": true });
    const groups = h("div", {});
    const draw = () => {
      const words = finder.value.toLowerCase().split(/\s+/).filter(Boolean);
      const fits = run.groups.map((each) => ({ ...each, charts: each.charts.filter((row) => words.every((word) => row.name.toLowerCase().includes(word) || row.lines.some((name) => name.toLowerCase().includes(word)))) }));
      look.clear(groups, fits.filter((each) => each.charts.length).map((each) => group(each, run.points, words.length ? each.charts.length <= 24 : !each.folded)));
      mark(["curves"], { find: finder.value });
    };
    finder.addEventListener("input", () => { clearTimeout(finder.waits); finder.waits = setTimeout(draw, 150); });
    look.clear(main,
      h("h1", { tabindex: "-1" }, "Curves"),
      h("p", {}, `${run.done} of ${run.iterations} iterations, on ${run.games.join(", ")}; ${run.snapshots} snapshots; matches are kept of ${run.kept.length} iterations. `,
        h("span", { class: "soft" }, "A point of a curve opens its iteration.")),
      run.alarms.map((alarm) => h("p", { class: "alarm" }, look.link(["alarm", alarm.name], `Alarm ${alarm.name}`), alarm.rings ? " rings." : ` rang in ${alarm.times.length} iterations, at last in ${alarm.times[alarm.times.length - 1]}.`)),
      finder, groups);
    draw();
  };

  const change = (row) => (row.before === null || row.before === undefined ? null : row.value - row.before);

  look.views.iteration = async (main, { parts, query }) => {
    const at = Number(parts[0]);
    const [found, kept] = await Promise.all([look.ask("iteration", { at }), look.ask("matches", { at }).catch(() => ({ matches: [] }))]);
    const beside = h("div", {});
    look.clear(main,
      h("h1", { tabindex: "-1" }, `Iteration ${at}`),
      h("p", { class: "controls" },
        at > 0 ? look.link(["iteration", at - 1], "← earlier", {}, { "data-key": "ArrowLeft" }) : null,
        at < found.done ? look.link(["iteration", at + 1], "later →", {}, { "data-key": "ArrowRight" }) : null,
        found.nearest !== null && found.nearest !== at ? look.link(["iteration", found.nearest], `nearest with kept matches: ${found.nearest}`) : null),
      found.alarms.map((name) => h("p", { class: "alarm" }, look.link(["alarm", name], `Alarm ${name} rings`, { at }))),
      h("h2", {}, "Matches that are kept whole"),
      kept.matches.length ? look.matchList(kept.matches) : h("p", { class: "soft" }, "None from this iteration: matches are kept when a snapshot is frozen."),
      beside,
      h("h2", {}, "Every number and its change"),
      look.table(["metric", "value", "change"], found.metrics.map((row) => [
        h("span", { title: row.note }, row.name), look.short(row.value), change(row) === null ? "–" : look.signed(change(row), 4)]), "Metrics of this iteration", { class: "numbers" }));
    look.iterationResults(beside, at, query.game);
  };
})();
