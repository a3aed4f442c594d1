/* The progress of a bulk operation: reads the page again, and takes over what has changed. The focus stays where it is. */
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const section = document.querySelector("[data-dbqueue-refresh]");
  if (!section) {
    return;
  }
  const wait = Number(section.dataset.dbqueueRefresh);

  const takeOver = (there) => {
    for (const element of section.querySelectorAll("[data-dbqueue-live]")) {
      const other = there.getElementById(element.id);
      if (!other) {
        continue;
      }
      if (element.tagName === "PROGRESS") {
        for (const name of ["max", "value"]) {
          if (other.hasAttribute(name)) {
            element.setAttribute(name, other.getAttribute(name));
          }
        }
      } else if (element.textContent !== other.textContent) {
        element.replaceChildren(...other.childNodes);
      }
    }
    return there.querySelector("[data-dbqueue-running]") !== null;
  };

  const refresh = async () => {
    let runs = true;
    try {
      const response = await fetch(window.location.href, { credentials: "same-origin", redirect: "error" });
      if (response.ok) {
        runs = takeOver(new DOMParser().parseFromString(await response.text(), "text/html"));
      }
    } catch {
      // The server is away for a moment, or the session is over: the next look will tell
    }
    if (runs) {
      window.setTimeout(refresh, wait);
    } else {
      section.querySelector("[data-dbqueue-running]").remove();
    }
  };

  window.setTimeout(refresh, wait);
});
