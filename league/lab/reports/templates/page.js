"use strict";
// Matches are stepped through; all else on a page is still. Without this script every step is shown.
const players = [...document.querySelectorAll(".match")].map((match) => {
  const own = (selector) => [...match.querySelectorAll(selector)].filter((found) => found.closest(".match") === match);
  const steps = own(".step");
  const [controls] = own(".controls");
  const [place] = own(".place");
  let at = 0;
  const go = (to) => {
    at = Math.max(0, Math.min(steps.length - 1, to));
    steps.forEach((step, index) => { step.hidden = index !== at; });
    place.textContent = at === steps.length - 1 ? `end of ${steps.length - 1} steps` : `step ${at + 1} of ${steps.length - 1}`;
    match.dataset.at = String(at + 1);
  };
  const moves = { first: () => go(0), back: () => go(at - 1), on: () => go(at + 1), last: () => go(steps.length - 1) };
  controls.hidden = false;
  own("button[data-go]").forEach((button) => button.addEventListener("click", () => moves[button.dataset.go]()));
  go(0);
  return { match, moves };
});
const visible = () => players.filter(({ match }) => match.offsetParent !== null);
const current = () => {
  const focused = document.activeElement && document.activeElement.closest(".match");
  const middle = window.innerHeight / 2;
  const away = ({ match }) => { const box = match.getBoundingClientRect(); return Math.max(box.top - middle, middle - box.bottom, 0); };
  return visible().find(({ match }) => match === focused) || visible().sort((a, b) => away(a) - away(b))[0];
};
const chooser = document.getElementById("chooser");
const whole = players.filter(({ match }) => !match.parentElement.closest(".match"));
const choose = () => whole.forEach(({ match }, place) => { match.hidden = place !== chooser.selectedIndex; });
if (chooser) { chooser.addEventListener("change", () => { choose(); chooser.blur(); }); choose(); }
const keys = { ArrowLeft: "back", ArrowRight: "on", Home: "first", End: "last" };
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("select, input, summary")) { return; }
  const alone = document.querySelector("main.replays") !== null;
  if (chooser && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
    const to = chooser.selectedIndex + (event.key === "ArrowDown" ? 1 : -1);
    chooser.selectedIndex = Math.max(0, Math.min(chooser.options.length - 1, to));
    choose();
    event.preventDefault();
  } else if (event.key in keys && (alone || event.key.startsWith("Arrow"))) {
    const player = current();
    if (player) { player.moves[keys[event.key]](); event.preventDefault(); }
  }
});
