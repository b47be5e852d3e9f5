"use strict";
// Elements, numbers and addresses. Whatever a model or a person wrote reaches the page as text: as a text node or as an
// attribute that is no address and no script. Nothing here parses HTML.
const look = { views: {} };

(() => {
  const SVG = "http://www.w3.org/2000/svg";

  const fill = (element, attributes, children) => {
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) { continue; }
      if (typeof value === "function") { element.addEventListener(name, value); }
      else { element.setAttribute(name, value === true ? "" : String(value)); }
    }
    element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
    return element;
  };
  look.h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
  look.svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  look.clear = (element, ...children) => { element.replaceChildren(...children.flat(Infinity).filter(Boolean)); return element; };

  // Numbers: a dash where there is none.
  look.plain = (value, digits = 3) => (typeof value === "number" ? value.toFixed(digits).replace("-", "−") : "–");
  look.signed = (value, digits = 3) => (typeof value === "number" ? (value > 0 ? "+" : "") + look.plain(value, digits) : "–");
  look.short = (value) => {
    if (typeof value !== "number") { return "–"; }
    const size = Math.abs(value);
    const text = size >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
    return text.replace("-", "−");
  };
  look.colour = (number) => `c${((number % 6) + 6) % 6}`;

  // Addresses of views: #/name/part/part?key=value.
  look.address = (parts, query = {}) => {
    const wanted = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
    const path = parts.map((part) => encodeURIComponent(String(part))).join("/");
    const more = new URLSearchParams(wanted.map(([name, value]) => [name, String(value)])).toString();
    return `#/${path}${more ? `?${more}` : ""}`;
  };
  look.link = (parts, text, query = {}, attributes = {}) => look.h("a", { href: look.address(parts, query), ...attributes }, text);
  look.where = () => {
    const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
    const parts = path.split("/").filter((part) => part !== "").map((part) => {
      try { return decodeURIComponent(part); } catch { return part; }
    });
    return { name: parts[0] || "curves", parts: parts.slice(1), query: Object.fromEntries(new URLSearchParams(query)) };
  };
  look.go = (parts, query = {}) => { location.hash = look.address(parts, query); };

  look.say = (text) => { document.getElementById("say").textContent = text; };

  look.table = (head, rows, label, attributes = {}) => look.h("div", { class: "scroll" },
    look.h("table", { "aria-label": label, ...attributes },
      look.h("thead", {}, look.h("tr", {}, head.map((cell) => look.h("th", { scope: "col" }, cell)))),
      look.h("tbody", {}, rows.map((row) => look.h("tr", {}, row.map((cell) => look.h("td", {}, cell)))))));

  look.choose = (label, options, chosen, on, attributes = {}) => look.h("label", { class: "choose" }, look.h("span", {}, label),
    look.h("select", { change: (event) => on(event.target.value), ...attributes },
      options.map(([value, text]) => look.h("option", { value, selected: value === chosen }, text))));

  look.seats = (players, roles, returns, trained) => look.h("ul", { class: "seats" }, players.map((player, seat) =>
    look.h("li", {}, look.h("i", { class: `dot ${look.colour(seat)}` }), `${roles[seat]}: `, look.h("b", {}, player),
      trained && trained[seat] ? " (trained)" : "", returns ? ` ${look.signed(returns[seat], 2)}` : "")));
})();
