// Says, at the lower edge of Jupyter's page, what it is waiting for, and whether the site has a newer version of the
// notebook. It goes when Python is ready.
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
    say("This page needs a web server. Run `python -m http.server` in the folder of the site, and open the address that it prints.");
    return;
  }
  say("Opening the notebook …");

  const newer = async (panel) => {
    const path = panel.context.path.split("/").map(encodeURIComponent).join("/");
    const found = await fetch(new URL(`../files/${path}`, location.href));
    const there = found.ok ? (await found.json()).metadata?.minikv : undefined;
    const here = panel.context.model.sharedModel.getMetadata("minikv");
    return here && there && here !== there;
  };

  const wait = async () => {
    const panel = window.jupyterapp?.shell.currentWidget;
    const session = panel?.sessionContext;
    if (!session) return setTimeout(wait, 200);
    await panel.context.ready;
    say("You can read. Python is starting in this browser: the first time it fetches 23 MB, later it has them.");
    await session.ready;
    await session.session.kernel.info;
    if (await newer(panel).catch(() => false)) {
      say("The site has a newer version of this notebook; yours has stayed. For the new one, delete yours (File > Open).");
    } else {
      say("Python is ready: run the cells from the top, with Shift+Enter. The first one fetches the course's packages.");
      setTimeout(() => bar.remove(), 8000);
    }
  };
  wait();
})();
