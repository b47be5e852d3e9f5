"use strict";
// Where answers come from: the server, or the page itself where it was written to a file.
(() => {
  const kept = document.getElementById("kept");
  const answers = kept ? JSON.parse(kept.textContent) : null;
  look.alone = answers !== null;

  const POLL = 5000; // milliseconds; a page that nobody looks at asks nothing
  const key = (view, query) => `${view} ${JSON.stringify(Object.entries(query).sort(([a], [b]) => (a < b ? -1 : 1)))}`;

  const read = async (response) => {
    const answer = await response.json();
    if (answer.error) { throw new Error(answer.error.message || answer.error); }
    return answer;
  };

  const asked = new Map(); // what is on its way, so that two who ask the same at once share one answer

  const get = async (address) => {
    let response;
    try { response = await fetch(address); }
    catch { throw new Error("The server does not answer: is `league look` still running?"); }
    return read(response);
  };

  // Returns the answer of a view; throws an Error with a sentence.
  look.ask = async (view, query = {}) => {
    const strings = Object.fromEntries(Object.entries(query).map(([name, value]) => [name, String(value)]));
    if (look.alone) {
      const answer = answers[key(view, strings)];
      if (!answer) { throw new Error("This is not in the file, which holds a selection of matches. The whole run is shown by: league look RUN"); }
      if (answer.error) { throw new Error(answer.error); }
      return answer;
    }
    const address = `api/${view}?${new URLSearchParams(strings)}`;
    if (!asked.has(address)) { asked.set(address, get(address).finally(() => asked.delete(address))); }
    return asked.get(address);
  };

  // Asks for what loads weights or plays.
  look.post = async (view, body) => {
    if (look.alone) { throw new Error("A file cannot play: this needs the server, league look RUN."); }
    let response;
    try { response = await fetch(`api/${view}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }); }
    catch { throw new Error("The server does not answer: is `league look` still running?"); }
    return read(response);
  };

  // Calls back when the run has gone on.
  look.watch = (callback) => {
    if (look.alone) { return; }
    let done = null;
    const once = async () => {
      if (!document.hidden) {
        try {
          const answer = await look.ask("curves", { names: "" });
          if (done !== null && answer.done !== done) { callback(answer.done); }
          done = answer.done;
        } catch (error) { document.getElementById("state").textContent = error.message; }
      }
      setTimeout(once, POLL);
    };
    setTimeout(once, POLL);
  };
})();
