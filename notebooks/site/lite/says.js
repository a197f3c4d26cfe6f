// What Jupyter's page of a notebook does not say or do by itself: at its lower edge, what it is waiting for, and that
// the site has a newer version of the notebook; the title of the tab; and links to other notebooks open in this tab.
(() => {
  const bar = document.createElement("div");
  bar.setAttribute("role", "status");
  bar.style.cssText =
    "position:fixed;left:0;right:0;bottom:0;z-index:9999;padding:8px 16px;font:14px/1.5 sans-serif;" +
    "background:#fff8e1;color:#212121;border-top:1px solid #bdbdbd";
  const more = document.createElement("a");
  more.href = new URL("../index.html", document.baseURI).href;
  more.textContent = "What is kept where?";
  more.style.cssText = "margin-left:1em;color:#0d47a1";
  const say = (text) => bar.replaceChildren(text, more);
  document.body.append(bar);

  if (location.protocol === "file:") {
    say("This page needs a web server. Run “python -m http.server” in the folder of the site, and open the address that it prints.");
    return;
  }
  say("Opening the notebook …");
  const shown = () => window.jupyterapp?.shell.currentWidget;

  const newer = async (panel) => {
    const path = panel.context.path.split("/").map(encodeURIComponent).join("/");
    const found = await fetch(new URL(`../files/${path}`, location.href));
    const there = found.ok ? (await found.json()).metadata?.minikv : undefined;
    const here = panel.context.model.sharedModel.getMetadata("minikv");
    return here && there && here !== there;
  };

  const follow = (event) => {
    const name = /\/files\/([^/]+\.ipynb)$/.exec(event.target.closest?.("a")?.pathname ?? "");
    if (!name || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const go = () => location.assign(`index.html?path=${name[1]}`);
    shown().context.save().then(go, go);
  };

  const wait = async () => {
    while (!shown()?.sessionContext) await new Promise((done) => setTimeout(done, 200));
    const panel = shown();
    const session = panel.sessionContext;
    await panel.context.ready;
    document.addEventListener("click", follow, true);
    const title = `${panel.context.path.replace(".ipynb", "").replaceAll("_", " ")} · minikv`;
    const keep = () => document.title === title || (document.title = title); // Jupyter calls every tab the same
    new MutationObserver(keep).observe(document.head, { childList: true, subtree: true, characterData: true });
    keep();
    say("You can read. Python is starting in this browser. The first visit fetches 23 MB; later visits don't.");
    const slow = setTimeout(() => {
      say("Python has not started yet. On a slow line it takes longer; if nothing happens, reload the page.");
    }, 90_000);
    await session.ready;
    await session.session.kernel.info;
    clearTimeout(slow);
    if (await newer(panel).catch(() => false)) {
      return say("The site has a newer version of this notebook. You see your own. To get the new one, choose File > Open, delete yours, and open it again.");
    }
    say("Python is ready. Run the cells from the top, with Shift+Enter or ▶ in the toolbar.");
    let ran = false;
    session.statusChanged.connect((_, status) => {
      if (status === "busy") say("Running. The first cell fetches the course's packages …");
      else if (ran && status === "idle") bar.remove();
      ran ||= status === "busy";
    });
  };
  wait().catch(() => say("Something went wrong while the notebook was opened: reload the page."));
})();
