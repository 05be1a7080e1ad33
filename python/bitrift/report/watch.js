"use strict";
// The server says which state of the campaign its page shows; another one than this page's means: load again.
setInterval(async () => {
  try {
    const answer = await fetch("state", { cache: "no-store" });
    if (answer.ok && (await answer.text()) !== document.documentElement.dataset.state) location.reload();
  } catch { /* the server has stopped; the page stays as it is */ }
}, 2000);
