/* Keeps the bars of {% dbqueue_progress %} up to date: asks each one's signed link until it is over. */
"use strict";
(() => {
  const follow = (box) => {
    const bar = box.querySelector("progress");
    const text = box.querySelector("[role=status]");
    let wait = Number(box.dataset.dbqueuePoll);

    const end = (words) => {
      text.setAttribute("aria-live", "polite"); // read out once, at the end, and not every few seconds
      text.textContent = words;
    };

    const ask = async () => {
      if (document.hidden) {
        document.addEventListener("visibilitychange", ask, { once: true });
        return;
      }
      let seen;
      try {
        const answer = await fetch(box.dataset.dbqueueProgress, { credentials: "same-origin" });
        seen = answer.ok || answer.status === 403 || answer.status === 404 ? await answer.json() : null;
      } catch {
        seen = null;
      }
      if (!seen) {
        wait = Math.min(60, wait * 2); // the server is away: ask again, less often
      } else if (seen.error) {
        end(seen.error);
        return;
      } else {
        bar.max = seen.total;
        bar.value = seen.finished;
        if (seen.over) {
          end(seen.text);
          return;
        }
        text.textContent = seen.text;
        wait = seen.poll;
      }
      setTimeout(ask, wait * 1000);
    };
    setTimeout(ask, wait * 1000);
  };

  const start = () => document.querySelectorAll("[data-dbqueue-progress]").forEach(follow);
  if (document.readyState === "loading") {
    document.addEventListener("DOMContentLoaded", start);
  } else {
    start();
  }
})();
