// What a person sees of the player in `#one`, in a few lines; run in the page. Long texts are cut.
() => {
  const all = (css, told) => [...document.querySelectorAll(`#one ${css}`)].map(told);
  const whole = (one) => one.ariaLabel || one.dataset.testid || one.textContent;
  const said = (one) => whole(one).replace(/ \(.*/, "").slice(0, 40);
  const ring = (one) => (one.querySelector(".minikv-ring") ? "◎" : "");
  const ringed = (one) => ring(one) + said(one).split(",")[0].replace("node ", "");
  const cell = (one) => (one.getAttribute("x") - 4) / 44 + (8 * (one.getAttribute("y") - 26)) / 44;
  const old = told.splice(0), keys = pressed.splice(0), focus = document.activeElement;
  const fold = document.querySelector("#one details");
  const now = `index ${document.querySelector("#one").dataset.step}`;
  const message = ([who, name, value]) => `${who} ${name} ${value.length ?? value}`.replace("one ", "");
  const heard = old.map(message).join(", ");
  return [
    `at ${all("[data-testid=count]", (one) => one.textContent)} ${all("[data-testid=play]", whole)}${
      all(".minikv-scene", (one) => (one.inert ? " faint" : ""))}`,
    `aloud ${all("[aria-live]", (one) => one.ariaLive)}`,
    `tree ${all(".minikv-tree g.node", ringed).join(" ")}`,
    `pool ${all(".minikv-pool .minikv-ring", cell)}`,
    `story ${all(":is(.minikv-story, .minikv-story + p, dt:first-child, dd)", said).join(" | ")}`,
    `events ${all("li button", said).map((words, i) => `${i + 1}: ${words}`).slice(-1)}`,
    `inside ${fold ? (fold.open ? "▾" : "▸") + said(fold) : ""}`,
    `focus ${focus === document.body ? "-" : said(focus).slice(0, 16)}`,
    ...keys.map((e) => `key ${e.key}${e.defaultPrevented ? " taken" : ""}`),
    `outside ${outside}`,
    `two ${document.querySelector("#two").dataset.step}`,
    `told ${heard === now ? "it" : heard || "nothing"}`,
  ];
}
