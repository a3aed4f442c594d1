"use strict";
/* The dashboard refreshes itself: it asks for new tables and points every five seconds while somebody can see it. */
(() => {
  const EVERY = 5000;
  const PATIENCE = 20000;
  const root = document.getElementById("dbqueue-dashboard");
  if (!root) return;
  const words = root.dataset;
  const figures = root.querySelector(".dbqueue-figures");
  const tiles = root.querySelector(".dbqueue-tiles");
  const charts = root.querySelector(".dbqueue-charts");
  const updated = root.querySelector(".dbqueue-updated");
  const button = root.querySelector(".dbqueue-pause");
  const trouble = root.querySelector(".dbqueue-status");
  const plots = [];
  let paused = false;
  let timer = null;
  let asking = false;
  let newest = null;

  // -- charts ----------------------------------------------------------------------------------------------

  const color = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  const number = (value, unit, exact) => {
    if (value === null || value === undefined) return "–";
    const digits = exact ?? (value === 0 || Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 1 ? 1 : 3);
    return value.toLocaleString(document.documentElement.lang || undefined, { maximumFractionDigits: digits }) + (unit ? " " + unit : "");
  };

  // so that no two ticks of an axis are the same text: 0.0005 and 0.001, or 2.5 and 3
  const digitsOf = (step) => Math.min(10, Math.max(0, 1 - Math.floor(Math.log10(step))));

  function draw(figure, series) {
    const names = figure.dataset.chart.split(" ");
    const labels = figure.dataset.labels.split("|");
    const unit = figure.dataset.unit;
    const colors = names.length === 1 ? ["--dbqueue-running"] : names.includes("dead") ? ["--dbqueue-stuck", "--dbqueue-dead"] : ["--dbqueue-ready", "--dbqueue-running"];
    const axis = { stroke: color("--body-fg"), grid: { stroke: color("--hairline-color") }, ticks: { stroke: color("--hairline-color") } };
    return new uPlot({
      width: figure.clientWidth,
      height: 180,
      tzDate: (stamp) => uPlot.tzDate(new Date(stamp * 1000), "Etc/UTC"),
      fmtDate: (template) => { const format = uPlot.fmtDate(template.replace("{h}:{mm}{aa}", "{HH}:{mm}").replace("{h}{aa}", "{HH}:00")); return format; },
      cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (_plot, _low, high) => [0, (high || 1) * 1.1] } },
      axes: [axis, { ...axis, size: 64, values: (_plot, ticks, _axis, _space, step) => ticks.map((tick) => number(tick, unit, digitsOf(step))) }],
      series: [
        { value: (_plot, at) => (at === null ? "–" : new Date(at * 1000).toISOString().slice(5, 16).replace("T", " ")), label: "UTC" },
        ...names.map((name, place) => ({
          label: labels[place],
          stroke: color(colors[place]),
          width: 2,
          dash: place ? [6, 4] : undefined,
          fill: names.length === 1 ? color(colors[place]) + "33" : undefined,
          spanGaps: false,
          points: { show: name !== "messages", size: 4 },
          value: (_plot, value) => number(value, unit),
        })),
      ],
    }, [series.at, ...names.map((name) => series[name])], figure);
  }

  function redraw() {
    plots.splice(0).forEach((plot) => plot.destroy());
    if (newest) show(newest);
  }

  function show(series) {
    newest = series;
    if (!charts || !series.at.length || typeof uPlot === "undefined") return;
    charts.hidden = false;
    const all = [...charts.querySelectorAll("figure")];
    all.forEach((figure, place) => {
      const data = [series.at, ...figure.dataset.chart.split(" ").map((name) => series[name])];
      if (plots[place]) plots[place].setData(data);
      else plots[place] = draw(figure, series);
      const parts = data.slice(1).map((values, at) => `${figure.dataset.labels.split("|")[at]} ${number(values.at(-2), figure.dataset.unit)}`);
      const canvas = figure.querySelector("canvas");
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `${figure.querySelector("figcaption").textContent}: ${parts.join(", ")}`);
    });
  }

  // -- tables ----------------------------------------------------------------------------------------------

  const place = (element) => (element ? [...figures.querySelectorAll("a, summary, [tabindex]")].indexOf(element) : -1);

  function put(html) {
    const focused = figures.contains(document.activeElement) ? document.activeElement : null;
    const target = focused && focused.getAttribute("href");
    const was = place(focused);
    const open = [...figures.querySelectorAll("details")].map((each) => each.open);
    const scrolled = [...figures.querySelectorAll(".dbqueue-scroll")].map((each) => each.scrollLeft);
    figures.innerHTML = html; // our own template, which escapes whatever others wrote
    figures.querySelectorAll("details").forEach((each, at) => { each.open = Boolean(open[at]); });
    figures.querySelectorAll(".dbqueue-scroll").forEach((each, at) => { each.scrollLeft = scrolled[at] || 0; });
    if (!focused) return;
    const same = target && [...figures.querySelectorAll("a")].find((each) => each.getAttribute("href") === target);
    (same || figures.querySelectorAll("a, summary, [tabindex]")[was] || button).focus({ preventScroll: true });
  }

  function putTiles(html) {
    const at = [...tiles.querySelectorAll("a")].indexOf(document.activeElement);
    tiles.innerHTML = html;
    tiles.querySelectorAll("a")[at]?.focus({ preventScroll: true });
  }

  const selects = () => {
    const chosen = document.getSelection();
    return Boolean(chosen && !chosen.isCollapsed && figures.contains(chosen.anchorNode));
  };

  // -- asking ----------------------------------------------------------------------------------------------

  function announce(text) {
    if (trouble.textContent !== text) trouble.textContent = text;
  }

  async function ask() {
    if (asking) return;
    asking = true;
    const stop = new AbortController();
    const patience = setTimeout(() => stop.abort(), PATIENCE);
    try {
      const answer = await fetch(words.url, { signal: stop.signal, headers: { Accept: "application/json" }, credentials: "same-origin" });
      const isOurs = (answer.headers.get("Content-Type") || "").startsWith("application/json");
      if (answer.status === 403 || (answer.ok && !isOurs)) {
        root.classList.add("dbqueue-old");
        announce(words.refused);
        return;
      }
      if (!answer.ok) throw new Error(String(answer.status));
      const { html, tiles: totals, series } = await answer.json();
      if (paused) return;
      putTiles(totals);
      if (!selects()) put(html);
      show(series);
      updated.textContent = `${words.updated} ${new Date().toLocaleTimeString(document.documentElement.lang || undefined)}`;
      if (root.classList.contains("dbqueue-old")) announce(words.reached);
      root.classList.remove("dbqueue-old");
    } catch {
      root.classList.add("dbqueue-old");
      announce(words.unreachable);
    } finally {
      clearTimeout(patience);
      asking = false;
    }
  }

  async function tick() {
    clearTimeout(timer);
    if (paused || document.hidden) return;
    await ask();
    clearTimeout(timer);
    if (!paused && !document.hidden) timer = setTimeout(tick, EVERY);
  }

  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? words.resume : words.pause;
    button.setAttribute("aria-pressed", String(paused));
    announce(paused ? words.paused : words.resumed);
    tick();
  });
  document.addEventListener("visibilitychange", tick);
  let sized = null;
  window.addEventListener("resize", () => {
    clearTimeout(sized);
    sized = setTimeout(redraw, 200);
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme", "data-bs-theme", "class"] });
  root.querySelector(".dbqueue-refresh").hidden = false;
  tick();
})();
