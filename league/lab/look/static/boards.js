"use strict";
// Draws boards from data: grids, hexagons, discs, cards, dice and tables.
(() => {
  const { h, svg } = look;
  const OPEN = ["board", "prizes", "fireworks"]; // hands that everybody sees

  const stone = (cell, x, y, size) => {
    if (!cell.stone) { return cell.label ? svg("text", { x, y: y + 4, "text-anchor": "middle", class: "label" }, cell.label) : null; }
    if (cell.stone === "O") { return svg("circle", { class: "stone o", cx: x, cy: y, r: size * 0.3 }); }
    const r = size * 0.27;
    return svg("path", { class: "stone x", d: `M${x - r} ${y - r}L${x + r} ${y + r}M${x + r} ${y - r}L${x - r} ${y + r}` });
  };

  const spoken = (rows) => rows.map((row) => row.map((cell) => cell.stone || cell.label || "empty").join(" ")).join("; ");

  const grid = (board) => {
    const size = 44, wide = board.rows[0].length * size, high = board.rows.length * size;
    return svg("svg", { class: "board", viewBox: `-2 -2 ${wide + 4} ${high + 4}`, width: wide, role: "img", "aria-label": `board: ${spoken(board.rows)}` },
      board.rows.flatMap((row, y) => row.flatMap((cell, x) => [
        svg("rect", { class: "cell", x: x * size, y: y * size, width: size, height: size }),
        stone(cell, (x + 0.5) * size, (y + 0.5) * size, size)])));
  };

  const discs = (board) => {
    const size = 36, wide = board.labels.length * size, high = board.rows.length * size;
    return svg("svg", { class: "board", viewBox: `-2 -2 ${wide + 4} ${high + 22}`, width: wide, role: "img", "aria-label": `board: ${spoken(board.rows)}` },
      board.rows.flatMap((row, y) => row.map((cell, x) => svg("circle", { class: `disc ${cell.stone ? cell.stone.toLowerCase() : "none"}`, cx: (x + 0.5) * size, cy: (y + 0.5) * size, r: size * 0.4 }))),
      board.labels.map((name, x) => svg("text", { x: (x + 0.5) * size, y: high + 15, "text-anchor": "middle" }, name)));
  };

  const hex = (board) => {
    const r = 24, step = r * Math.sqrt(3), columns = board.rows[0].length, rows = board.rows.length;
    const wide = step * (columns + (rows - 1) / 2 + 0.2), high = r * (1.5 * rows + 0.7);
    const corner = (x, y, at) => `${(x + r * Math.cos(Math.PI / 6 + (at * Math.PI) / 3)).toFixed(1)},${(y + r * Math.sin(Math.PI / 6 + (at * Math.PI) / 3)).toFixed(1)}`;
    return svg("svg", { class: "board", viewBox: `-2 -2 ${wide + 4} ${high + 4}`, width: wide, role: "img", "aria-label": `board: ${spoken(board.rows)}` },
      board.rows.flatMap((row, y) => row.flatMap((cell, x) => {
        const cx = step * (x + 0.5 + y / 2) + 2, cy = r * (1 + 1.5 * y);
        return [svg("polygon", { class: "cell", points: [0, 1, 2, 3, 4, 5].map((at) => corner(cx, cy, at)).join(" ") }), stone(cell, cx, cy, 40)];
      })));
  };

  const card = (name, hidden, die) => h("span", { class: `card ${die ? "die" : ""} ${hidden ? "back" : ""} ${/[hd]$/.test(name) && name.length === 2 ? "red" : ""}`, "aria-label": hidden ? "hidden" : name }, hidden ? "?" : name.replace(/s$/, "♠").replace(/h$/, "♥"));

  const hands = (board, eyes) => h("div", { class: "hands" }, board.hands.map((hand, number) => h("div", { class: "hand" },
    h("span", { class: "soft" }, hand.label),
    h("div", { class: "cards" }, hand.cards.map((name) => card(name, eyes === "all" && !OPEN.includes(hand.label), board.kind === "dice"))))));

  const table = (board, eyes) => (eyes === "all" ? null : look.table(board.head, board.rows, "what goods are worth"));

  const KINDS = { grid, hex, discs, cards: hands, dice: hands, table };

  // eyes: "all" for what everybody sees, "god", or a seat's number. Returns null where there is nothing to draw.
  look.board = (drawings, eyes) => {
    if (!drawings) { return null; }
    const same = drawings.seats.every((each) => JSON.stringify(each) === JSON.stringify(drawings.seats[0]));
    const board = eyes === "god" || eyes === "all" ? drawings.god : drawings.seats[Number(eyes)];
    if (!board) { return null; }
    if (eyes === "all" && !same && ["grid", "hex"].includes(board.kind)) { return h("p", { class: "soft" }, "Each seat sees its own board: choose whose view to show."); }
    return h("div", { class: "drawing" }, KINDS[board.kind](board, eyes),
      (board.lines || []).filter(([, what]) => what).map(([name, what]) => h("p", { class: "line" }, h("span", { class: "soft" }, `${name}: `), what)));
  };
})();
