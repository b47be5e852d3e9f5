"use strict";
// Line charts and histograms that are walked with the arrow keys and opened with Enter, or with the mouse.
(() => {
  const WIDE = 420, HIGH = 170, LEFT = 46, RIGHT = 14, TOP = 8, BOTTOM = 20;

  const ticks = (low, high, most) => {
    const span = high - low || 1;
    const rough = span / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((unit) => unit * power).find((unit) => unit >= rough);
    const found = [];
    for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) { found.push(Number(tick.toPrecision(12))); }
    return found;
  };

  const scales = (lines, range, marks) => {
    const xs = lines.flatMap((line) => line.x), ys = lines.flatMap((line) => line.y).filter((value) => value !== null).concat(marks);
    const left = Math.min(...xs), right = Math.max(...xs);
    let [low, high] = range || [Math.min(...ys), Math.max(...ys)];
    if (low === high) { low -= 0.5; high += 0.5; }
    return {
      left, right, low, high,
      x: (value) => LEFT + (right === left ? 0.5 : (value - left) / (right - left)) * (WIDE - LEFT - RIGHT),
      y: (value) => TOP + (1 - (value - low) / (high - low)) * (HIGH - TOP - BOTTOM),
    };
  };

  const axes = (scale) => [
    ...ticks(scale.low, scale.high, 4).flatMap((value) => [
      look.svg("path", { class: "axis", d: `M${LEFT} ${scale.y(value)}H${WIDE - RIGHT}` }),
      look.svg("text", { x: LEFT - 5, y: scale.y(value) + 4, "text-anchor": "end" }, look.short(value)),
    ]),
    ...ticks(scale.left, scale.right, 6).map((value) => look.svg("text", { x: scale.x(value), y: HIGH - 5, "text-anchor": "middle" }, look.short(value))),
  ];

  const path = (line, scale) => line.x.map((value, at) => (line.y[at] === null ? "" : `${at && line.y[at - 1] !== null ? "L" : "M"}${scale.x(value).toFixed(1)} ${scale.y(line.y[at]).toFixed(1)}`)).join("");

  const nearest = (xs, value) => xs.reduce((best, each, at) => (Math.abs(each - value) < Math.abs(xs[best] - value) ? at : best), 0);

  // lines: [{label, x, y}]; open(x) is called with the chosen point's place on the axis.
  look.lineChart = (label, lines, { open = null, range = null, bands = [], marks = [], what = "iteration" } = {}) => {
    const drawn = lines.filter((line) => line.x.length);
    if (!drawn.length) { return look.h("p", { class: "soft" }, "nothing yet"); }
    const scale = scales(drawn, range, marks);
    const xs = [...new Set(drawn.flatMap((line) => line.x))].sort((a, b) => a - b);
    const cursor = look.svg("path", { class: "cursor" });
    const told = look.h("output", { class: "told" });
    const picture = look.svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", tabindex: "0",
      "aria-label": `${label}: ${what}s ${xs[0]} to ${xs[xs.length - 1]}${open ? "; arrow keys choose a point, Enter opens it" : ""}` },
      bands.map(([low, high]) => look.svg("rect", { class: "band", x: LEFT, width: WIDE - LEFT - RIGHT, y: scale.y(Math.max(low, high)), height: Math.max(Math.abs(scale.y(low) - scale.y(high)), 2) })),
      axes(scale),
      drawn.map((line, number) => (line.x.length > 1
        ? look.svg("path", { class: `line ${look.colour(line.colour ?? number)}`, d: path(line, scale) })
        : look.svg("circle", { class: `point ${look.colour(line.colour ?? number)}`, cx: scale.x(line.x[0]), cy: scale.y(line.y[0]), r: 3 }))),
      cursor);
    let at = xs.length - 1;
    const show = (to) => {
      at = Math.max(0, Math.min(xs.length - 1, to));
      cursor.setAttribute("d", `M${scale.x(xs[at])} ${TOP}V${HIGH - BOTTOM}`);
      const values = drawn.map((line) => [line.label, line.y[line.x.indexOf(xs[at])]]).filter(([, value]) => value !== undefined);
      told.textContent = `${what} ${xs[at]}: ${values.map(([name, value]) => `${drawn.length > 1 ? `${name} ` : ""}${look.short(value)}`).join(", ")}`;
    };
    const under = (event) => {
      const box = picture.getBoundingClientRect();
      const place = ((event.clientX - box.left) / box.width) * WIDE;
      return nearest(xs, scale.left + ((place - LEFT) / (WIDE - LEFT - RIGHT)) * (scale.right - scale.left));
    };
    picture.addEventListener("mousemove", (event) => show(under(event)));
    picture.addEventListener("focus", () => show(at));
    if (open) { picture.addEventListener("click", (event) => { show(under(event)); open(xs[at]); }); picture.classList.add("opens"); }
    picture.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
      if (event.key in steps) { show(at + steps[event.key]); }
      else if (event.key === "Enter" && open) { open(xs[at]); }
      else { return; }
      event.preventDefault();
      event.stopPropagation();
    });
    return look.h("div", { class: "chart" }, picture, told, drawn.length > 1 ? look.legend(drawn.map((line, number) => [line.label, line.colour ?? number])) : null);
  };

  look.legend = (names) => look.h("p", { class: "key" }, names.map(([name, number]) => look.h("span", {}, look.h("i", { class: `dot ${look.colour(number)}` }), name)));

  // bins: [{low, high, count}]; each is a button that opens.
  look.histogram = (label, bins, open) => {
    const most = Math.max(1, ...bins.map((bin) => bin.count));
    return look.h("div", { class: "bars", role: "group", "aria-label": label }, bins.map((bin, number) => {
      const name = bin.low === bin.high ? look.short(bin.low) : `${look.short(bin.low)} to ${look.short(bin.high)}`;
      const bar = look.h("i", {});
      bar.style.height = `${Math.round((bin.count / most) * 90) + 2}px`;
      return look.h("button", { type: "button", class: "bar", "aria-label": `${name}: ${bin.count} matches`, click: () => open(number) },
        look.h("small", {}, String(bin.count)), bar, look.h("span", {}, name));
    }));
  };
})();
